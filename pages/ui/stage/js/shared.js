// What the stage's scripts share: the page's hosts, what each is to show, and the socket.

export const stage = (window.dgpStage ??= { socket: null, token: null, frames: 0 });
export const hosts = new Map(); // name -> Set of boxes
export const newest = new Map(); // name -> what to show
export const pending = new Map(); // box -> the newest content that it has not drawn yet
export const MAIN = /\/(deep|rival)$/; // the pictures that are drawn in every frame
export const sceneOf = (name) => name.split("/")[0];

// What is known of each host beside its element.
const states = new WeakMap();
export const stateOf = (stage.stateOf = (box) => {
  if (!states.has(box)) states.set(box, {});
  return states.get(box);
});

export const element = (kind, className = "", text = "") =>
  Object.assign(document.createElement(kind), { className, textContent: text });

export const send = (message) => {
  if (stage.socket?.readyState === 1) stage.socket.send(JSON.stringify(message));
};
