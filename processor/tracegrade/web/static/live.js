// Brings in new results without a reload. The page works without it: this only asks for the same address again when
// the server says that there is something new, and puts in place the parts that differ. What it listens to is /live, or
// the events of one job, which the page names; a page that names none any more is of a job that has ended.
"use strict";

const JOB_EVENTS = [
  "job_created", "job_progress", "job_completed", "job_failed", "job_cancelled",
  "tool_eval_init", "tool_eval_progress", "tool_eval_result", "tool_eval_summary", "tool_eval_complete",
];
const UNHEARD_MS = 3000; // without a stream, such as where too many are open, the page is asked for so often

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

  const isTyped = (field) => field.type !== "hidden" && field.value !== field.defaultValue;

  const hasReader = (part) =>
    part.contains(document.activeElement) ||
    part.querySelector("details[open]") !== null ||
    [...part.querySelectorAll("textarea, input")].some(isTyped);

  // Parts are paired by their place; where their number differs, all of them are replaced.
  const update = (page) => {
    showTimes(page); // in times.js: what is compared has been written at the same moment
    showTimes(document);
    if (!page.querySelector("main[data-live]")) {
      main.replaceChildren(...page.querySelector("main").childNodes);
      end();
      return;
    }
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

  const events = new EventSource(main.dataset.live || "/live");
  let asking = null;
  const look = () => {
    due = true;
    refresh();
  };
  const end = () => {
    on = false;
    events.close();
    clearInterval(asking);
    box.hidden = true;
    main.removeAttribute("data-live");
  };
  events.addEventListener("results", (event) => {
    if (seen !== null && event.data !== seen) look();
    seen = event.data;
  });
  if (main.dataset.live) JOB_EVENTS.forEach((name) => events.addEventListener(name, look));
  events.addEventListener("open", () => {
    if (state.textContent === "not reachable") state.textContent = "";
  });
  events.addEventListener("error", () => {
    if (on) state.textContent = "not reachable";
    if (events.readyState === EventSource.CLOSED) asking ??= setInterval(look, UNHEARD_MS);
  });
  addEventListener("pagehide", () => events.close());
  box.hidden = false;
}
