// Shows times in the zone of the reader, and how long ago they are. The page's source has them in UTC, as does the text
// that appears on hover.
"use strict";

const DAY_S = 86_400;
const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const ago = (seconds) => {
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `${Math.floor(seconds / 3600)} h ago`;
};

// Writes all times below an element anew. They are compared by their attributes alone, so nothing is read from texts.
const showTimes = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const seconds = (Date.now() - at) / 1000;
    const local = zone.format(at);
    const isRecent = seconds >= 0 && seconds < DAY_S && !time.closest("svg");
    const shown = isRecent ? ago(seconds) : local;
    if (time.textContent !== shown) time.textContent = shown;
    time.title = `${time.dateTime.replace("T", " ").replace("Z", " UTC")}${isRecent ? ` · ${local} here` : ""}`;
  }
  for (const word of root.querySelectorAll(".utc")) word.hidden = true;
  for (const word of root.querySelectorAll(".zone")) word.textContent = zone.resolvedOptions().timeZone;
};

showTimes(document);
setInterval(() => showTimes(document), 30_000);
