"""Welcome: what this is, and a first deep model beside its single-layer rival."""

import numpy as np
import streamlit as st

from datasets.catalogue import entry, load
from dgp_core import DeepGPRegressor
from pages.figures.palette import DARK, LIGHT
from pages.figures.prediction import (
    LEVELS,
    DataView,
    PredictionView,
    data_figure,
    frame,
    prediction_figure,
)
from pages.ui.sentences import in_words

SETS = ("step", "chirp", "motorcycle", "nearly_linear")
DEEP_LAYERS = 2
TEXT_WIDTH = 760


def data_view(name: str) -> DataView:
    """A data set with one input, and room around it for what the models say beyond it."""
    data = load(name)
    x, y = data.X[:, 0], data.Y[:, 0]
    x_name, y_name = f"input {data.input_names[0]}", f"output {data.output_names[0]}"
    return DataView(x, y, x_name, y_name, frame(x, 0.1), frame(y, 0.35))


def predicted(data: DataView, layers: int) -> PredictionView:
    """Fits one model and asks it for its prediction along the frame."""
    model = DeepGPRegressor(layers=layers, inducing=25, steps=3000, learning_rate=0.03, seed=0)
    model.fit(data.x[:, None], data.y)
    grid = np.linspace(*data.x_range, 300)
    mean = np.asarray(model.predict(grid[:, None]))
    quantiles = model.predict_quantiles(grid[:, None], LEVELS)
    draws = model.function_draws(grid[:, None], 5)
    return PredictionView(data, layers, grid, mean, quantiles, draws)


@st.cache_data(
    show_spinner="Fitting both models. The first fit takes longest: its step is compiled.",
    show_time=True,
    max_entries=32,
)
def fitted(name: str) -> tuple[PredictionView, PredictionView]:
    """The deep model's prediction and the single layer's, on the same data from the same seed."""
    data = data_view(name)
    return predicted(data, DEEP_LAYERS), predicted(data, 1)


def picture(figure, alt: str, key: str):
    st.plotly_chart(figure, theme=None, key=key, alt=alt, config={"displayModeBar": False})


ink = DARK if st.context.theme.type == "dark" else LIGHT

st.title("Deep GP Lab")
st.markdown(
    "A deep Gaussian process sends its inputs through several Gaussian processes in turn, so the "
    "first can stretch the axis on which the last one draws: smooth here, sudden there. Choose a "
    "data set and fit a model of two layers beside its single-layer rival, on the same points and "
    "from the same seed.",
    width=TEXT_WIDTH,
)

with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
    name = st.pills(
        "Data set",
        SETS,
        format_func=lambda name: entry(name).title,
        default=SETS[0],
        required=True,
        wrap=True,
        key="data",
        help="Each has one input and one output, so that the whole prediction can be seen.",
    )
    if st.button(
        "Fit",
        type="primary",
        icon=":material/play_arrow:",
        width=140,
        help="Trains both models. A data set that was fitted before comes back at once.",
    ):
        st.session_state.fitted = name

with in_words("This data set could not be fitted. Choose another one, or press Fit again."):
    st.markdown(entry(name).story, width=TEXT_WIDTH)
    if st.session_state.get("fitted") == name:
        deep, single = fitted(name)
        left, right = st.columns(2, gap="medium")
        with left:
            st.subheader(f"Deep: {deep.layers} layers", anchor=False)
            picture(prediction_figure(deep, ink), "The deep model's prediction, and the data.", "d")
        with right:
            st.subheader("Single layer", anchor=False)
            picture(prediction_figure(single, ink), "The single layer's, on the same data.", "s")
        st.caption(
            "Shade: where the model expects the middle 50 % (quantiles 25 to 75 %) and 95 % "
            "(2.5 to 97.5 %) of new points, noise included. Thin lines: functions drawn from the "
            "model, without noise. Both pictures have the same axes.",
            width=TEXT_WIDTH,
        )
    else:
        picture(data_figure(data_view(name), ink), "The data, before any model is fitted.", "x")
        st.info("No model has seen these points yet: press Fit.", icon=":material/info:")

st.subheader("What is coming", anchor=False)
st.markdown(
    "A playground where both models train before your eyes, a look inside every layer, a page for "
    "your own data, and lessons that begin where this page ends.",
    width=TEXT_WIDTH,
)
