// What a cron expression says, in words; the box alone decides when it fires.
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS = ["", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const NAMED: Record<string, string> = {
  "@hourly": "Each hour",
  "@daily": "Each day at 00:00",
  "@midnight": "Each day at 00:00",
  "@weekly": "Sundays at 00:00",
  "@monthly": "On the first of each month at 00:00",
  "@yearly": "On 1 January at 00:00",
  "@annually": "On 1 January at 00:00",
};

const pad = (text: string) => text.padStart(2, "0");
const isNumber = (text: string) => /^\d+$/.test(text);

function list(field: string, name: (part: string) => string): string {
  return field
    .split(",")
    .map((part) => (part.includes("-") ? part.split("-").map(name).join(" to ") : name(part)))
    .join(", ");
}

function dayName(part: string): string {
  const at = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"].indexOf(part.toLowerCase());
  return DAYS[at >= 0 ? at : Number(part)] ?? part;
}

function time(minute: string, hour: string): string {
  if (isNumber(minute) && isNumber(hour)) return `at ${pad(hour)}:${pad(minute)}`;
  if (isNumber(minute) && /^[\d,]+$/.test(hour)) return `at ${hour.split(",").map((one) => `${pad(one)}:${pad(minute)}`).join(", ")}`;
  const step = /^\*\/(\d+)$/.exec(minute);
  if (step && hour === "*") return `each ${step[1]} minutes`;
  if (minute === "*" && hour === "*") return "each minute";
  if (isNumber(minute) && hour === "*") return `each hour at minute ${Number(minute)}`;
  const hours = /^\*\/(\d+)$/.exec(hour);
  if (isNumber(minute) && hours) return `each ${hours[1]} hours at minute ${Number(minute)}`;
  return `at minutes ${minute} of hours ${hour}`;
}

/** What the seconds of an expression of six fields add. */
function withSeconds(at: string, second: string): string {
  if (second === "0" || second === "00") return at;
  const step = /^\*\/(\d+)$/.exec(second);
  const told = second === "*" ? "each second" : step ? `each ${step[1]} seconds` : "";
  if (told) return at === "each minute" ? told : `${at}, ${told} of that minute`;
  return /^at \d\d:\d\d$/.test(at) && isNumber(second) ? `${at}:${pad(second)}` : `${at}, at second ${second}`;
}

/** Such as “Monday to Friday at 06:00”. */
export function inWords(cron: string): string {
  const text = cron.trim();
  if (text.startsWith("@")) return NAMED[text.toLowerCase()] ?? text;
  const parts = text.split(/\s+/);
  if (parts.length < 5 || parts.length > 6) return "An expression has five fields: minute, hour, day, month, weekday.";
  const [minute = "*", hour = "*", day = "*", month = "*", weekday = "*"] = parts.slice(-5);
  const when = [];
  if (weekday !== "*" && weekday !== "?") when.push(list(weekday, dayName));
  if (day !== "*" && day !== "?") when.push(day === "L" ? "on the last day" : `on day ${list(day, (part) => part)}`);
  if (month !== "*") when.push(`in ${list(month, (part) => MONTHS[Number(part)] ?? part)}`);
  const at = withSeconds(time(minute, hour), parts.length === 6 ? (parts[0] ?? "0") : "0");
  if (when.length === 0) when.push(at.startsWith("each") ? "" : "each day");
  const said = [...when, at].filter(Boolean).join(" ");
  return said.charAt(0).toUpperCase() + said.slice(1);
}
