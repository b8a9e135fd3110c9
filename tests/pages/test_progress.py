"""The line of phases: what it says at each point of a fit."""

from dgp_core.live.trial import TrialProgress
from pages.ui.your_data.progress import clock, phase_line


def progress(phase, training_left=None, scoring_left=None, **spent) -> TrialProgress:
    times = {"waiting": 0.0, "compiling": 0.0, "training": 0.0, "scoring": 0.0} | spent
    return TrialProgress(0.5, training_left, scoring_left, phase, 1.0, times, "")


def line(*args, reading=0.3, **spent) -> str:
    return phase_line(progress(*args, **spent), reading).replace("\u00a0", " ")


def test_a_time_is_short_and_does_not_flicker_where_it_ticks():
    said = [clock(s).replace("\u00a0", " ") for s in (0.04, 3.21, 12.9, 89.9, 125, 7260)]
    assert said == ["under 0.1 s", "3.2 s", "12 s", "89 s", "2 min 05 s", "2 h 01 min"]
    assert clock(3.9, ticking=True) == "3\u00a0s"


def test_the_line_marks_the_present_phase_and_names_those_to_come():
    assert line("waiting", waiting=1.5) == (
        "reading 0.3 s · **▸ waiting 1 s** · *compiling* · *training* · *scoring*"
    )
    assert line("training", 31.0, waiting=1.0, compiling=4.04, training=12.3) == (
        "reading 0.3 s · waiting 1.0 s · compiling 4.0 s · "
        "**▸ training 12 s**, about 30 seconds left · *scoring*"
    )


def test_a_phase_that_was_passed_by_is_not_told():
    assert line("training", training=2.0, reading=None) == "**▸ training 2 s** · *scoring*"


def test_no_training_is_left_while_the_last_model_is_scored():
    said = line("scoring", 0.4, 3.2, training=12.0, scoring=2.0)
    assert said == "reading 0.3 s · training 12 s · **▸ scoring 2 s**, about 3 seconds left"


def test_folds_tell_what_is_left_of_both():
    said = line("scoring", 40.0, 8.0, training=12.0, scoring=2.0)
    assert "training 12 s, about 40 seconds left · **▸ scoring 2 s**, about 8 seconds left" in said


def test_a_fit_that_is_over_or_paused_marks_nothing():
    said = line("over", 0.0, 0.0, waiting=0.01, compiling=4.0, training=12.0, scoring=2.0)
    assert said == "reading 0.3 s · compiling 4.0 s · training 12 s · scoring 2.0 s"
    assert "▸" not in line("paused", 5.0, training=12.0)
