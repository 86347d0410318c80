// Formats numbers, sizes and times. Pure: the language is an argument.

const kMissing = "–";

// Formats four significant digits without trailing zeros; thousands are grouped.
export function number(value: number | null | undefined, locale: string): string {
  if (value === null || value === undefined || Number.isNaN(value)) return kMissing;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e").replace("-", "−").replace("e-", "e−");
  if (Number.isInteger(value)) return new Intl.NumberFormat(locale).format(value).replace("-", "−");
  // A value that rounds to an integer, such as 3.99976, keeps four digits ("4.000") to show that it is not exact.
  const rounded = Number.isInteger(Number(value.toPrecision(4))) && size < 1000;
  return new Intl.NumberFormat(locale, { maximumSignificantDigits: 4, ...(rounded ? { minimumSignificantDigits: 4 } : {}) }).format(value).replace("-", "−");
}

export const count = (value: number | null | undefined, locale: string) =>
  value === null || value === undefined ? kMissing : new Intl.NumberFormat(locale).format(value);

export const percent = (part: number, locale: string) =>
  Number.isFinite(part) ? new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 }).format(part) : kMissing;

const kUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
export function bytes(value: number | null | undefined, locale: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return kMissing;
  const power = value < 1 ? 0 : Math.min(kUnits.length - 1, Math.floor(Math.log2(value) / 10));
  const scaled = value / 1024 ** power;
  const digits = power === 0 || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return new Intl.NumberFormat(locale, { maximumFractionDigits: digits }).format(scaled) + " " + kUnits[power];
}

// Formats at most two units: "3 d 4 h", "12 min 5 s", "0.4 s".
export function duration(ms: number | null | undefined, locale: string): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return kMissing;
  const zh = locale.startsWith("zh");
  const unit = (n: number, en: string, chinese: string) => (zh ? `${n} ${chinese}` : `${n} ${en}`);
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return unit(Math.round(s * 10) / 10, "s", "秒");
  const parts: [number, string, string][] = [
    [Math.floor(s / 86400), "d", "天"],
    [Math.floor(s / 3600) % 24, "h", "小时"],
    [Math.floor(s / 60) % 60, "min", "分"],
    [Math.floor(s) % 60, "s", "秒"],
  ];
  const first = parts.findIndex(([n]) => n > 0);
  return parts
    .slice(first, first + 2)
    .filter(([n], i) => i === 0 || n > 0)
    .map(([n, en, chinese]) => unit(n, en, chinese))
    .join(" ");
}

export const clock = (ms: number, locale: string) =>
  new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).format(ms);
// Formats the time of a log line in the browser's time zone, with milliseconds, and with the date unless it is today.
export function log_time(ms: number, now: number, locale: string): string {
  const today = new Date(ms).toDateString() === new Date(now).toDateString();
  return formatter(locale + today, () => new Intl.DateTimeFormat(locale, { ...(today ? {} : { month: "2-digit", day: "2-digit" }), hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" })).format(ms);
}
// Cached, because creating a formatter costs as much as using it a hundred times.
const formatters = new Map<string, Intl.DateTimeFormat>();
function formatter(key: string, make: () => Intl.DateTimeFormat): Intl.DateTimeFormat {
  const known = formatters.get(key) ?? make();
  formatters.set(key, known);
  return known;
}
export const date_time = (ms: number, locale: string) =>
  new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium", hour12: false }).format(ms);

export const full_time = (ms: number, locale: string) =>
  new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "long", hour12: false }).format(ms);

// Formats the time without seconds, with the date unless it is today.
export const day_time = (ms: number, now: number, locale: string) =>
  new Intl.DateTimeFormat(locale, { ...(new Date(ms).toDateString() === new Date(now).toDateString() ? {} : { month: "short", day: "numeric" }), hour: "2-digit", minute: "2-digit", hour12: false }).format(ms);

// Formats a value of a configuration in one line.
export function plain(value: unknown, locale: string): string {
  if (value === null || value === undefined) return kMissing;
  if (typeof value === "number") return number(value, locale);
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}
