// The connection: one a page, opened anew where it was lost.

import { tellCommands } from "./bar.js";
import { taken } from "./clicks.js";
import { tellMoves } from "./drags.js";
import { comeBack, draw } from "./frames.js";
import { heard, joined } from "./lesson.js";
import { begin, frames } from "./runs.js";
import { hosts, newest, stage } from "./shared.js";
import { words } from "./words.js";

export function connect(data, box, setTriggerValue) {
  if (stage.path && stage.path !== location.pathname && !location.hash)
    document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);
  stage.path = location.pathname;
  stage.trigger = setTriggerValue;
  const before = stage.scenes ?? {};
  stage.scenes = data.scenes;
  for (const [scene, { run }] of Object.entries(data.scenes))
    if (run !== before[scene]?.run) {
      begin(scene, run);
      comeBack(scene, run);
    }
  taken(data.taken);
  joined(data.lesson, box, setTriggerValue);
  if (stage.token === data.token && stage.socket?.readyState <= 1) return;
  stage.token = data.token;
  stage.socket?.close();
  newest.clear();
  frames.clear();
  open(data.token, 250);
}

function open(token, wait) {
  if (token !== stage.token) return;
  const url = new URL("stage/" + token, document.baseURI);
  url.protocol = url.protocol.replace("http", "ws");
  if (window.dgpEarly) url.searchParams.set("film", window.dgpEarly); // early.js has come so far
  const socket = (stage.socket = new WebSocket(url));
  socket.binaryType = "arraybuffer";
  let answered = false;
  socket.onmessage = async (event) => {
    answered = true;
    stage.lost = null;
    const { data } = event;
    const frame = JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data));
    stage.clockOffset = frame.now - Date.now() / 1000;
    const { "class/page": page, ...elements } = frame.elements;
    if (page) heard(page);
    await draw(elements);
    if (!frame.n) return; // an answer between two frames
    stage.frames += 1;
    if (socket.readyState === 1) socket.send(JSON.stringify({ drawn: frame.n }));
  };
  socket.onopen = () => {
    tellCommands();
    tellMoves();
  };
  socket.onclose = (event) => {
    if (socket !== stage.socket) return;
    if (event.code === 4404 && stage.lost) return location.reload(); // another server, or too late
    if (event.code === 4404) return say("**Not connected.** Reload the page to go on.");
    if (answered) stage.lost ??= Date.now() / 1000 + (stage.clockOffset ?? 0);
    if (stage.lost) say("**Connection lost.** Trying again …", stage.lost);
    setTimeout(() => open(token, Math.min(8000, 2 * wait)), answered ? 250 : wait);
  };
}

// In place of what the run is doing, which nobody knows meanwhile.
function say(text, since) {
  for (const [name, boxes] of hosts)
    if (name.endsWith("/state")) for (const box of boxes) words(box, text, since);
}
