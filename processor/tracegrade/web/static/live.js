// Brings in new results without a reload. The page works without it: this only asks for the same address again when
// the server says that there is something new, and puts in place the parts that differ.
"use strict";

const main = document.querySelector("main[data-live]");
const moves = !new URLSearchParams(location.search).has("until"); // fixed times show the same for ever
if (main && moves && "EventSource" in window) {
  const box = document.getElementById("live");
  const button = box.querySelector("button");
  const state = document.getElementById("live-state");
  let on = true;
  let due = false;
  let busy = false;
  let notBefore = 0;
  let seen = null;

  const parts = (page) =>
    [...page.querySelectorAll("main > *, main > .columns > *")].filter((part) => !part.matches(".columns, .filters"));

  const hasReader = (part) => part.contains(document.activeElement) || part.querySelector("details[open]") !== null;

  // Parts are paired by their place; where their number differs, all of them are replaced.
  const update = (page) => {
    const now = parts(document);
    const next = parts(page);
    if (now.length !== next.length) {
      if (!hasReader(main)) main.replaceChildren(...page.querySelector("main").childNodes);
      return;
    }
    now.forEach((part, place) => {
      const other = next[place];
      if (part.outerHTML === other.outerHTML || hasReader(part)) return;
      const left = part.querySelector(".scroll")?.scrollLeft ?? 0;
      part.replaceWith(other);
      if (left) other.querySelector(".scroll").scrollLeft = left;
    });
  };

  const refresh = async () => {
    if (!on || busy || !due || document.hidden) return;
    const wait = notBefore - performance.now();
    if (wait > 0) {
      setTimeout(refresh, wait);
      return;
    }
    busy = true;
    due = false;
    const begun = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.redirected) location.reload(); // to sign in again
      else if (answer.ok) {
        update(new DOMParser().parseFromString(await answer.text(), "text/html"));
        state.textContent = `updated ${new Date().toISOString().slice(11, 19)} UTC`;
      }
    } catch {
      state.textContent = "not reachable";
    }
    busy = false;
    // A page that takes long is asked for less often: an open one never takes more than a tenth of the server's time.
    notBefore = performance.now() + Math.max(1000, 9 * (performance.now() - begun));
    if (due) refresh();
  };

  button.addEventListener("click", () => {
    on = !on;
    button.setAttribute("aria-pressed", String(on));
    state.textContent = on ? "" : "paused";
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);

  const events = new EventSource("/live");
  events.addEventListener("results", (event) => {
    if (seen !== null && event.data !== seen) {
      due = true;
      refresh();
    }
    seen = event.data;
  });
  events.addEventListener("open", () => {
    if (state.textContent === "not reachable") state.textContent = "";
  });
  events.addEventListener("error", () => {
    if (on) state.textContent = "not reachable";
  });
  addEventListener("pagehide", () => events.close());
  box.hidden = false;
}
