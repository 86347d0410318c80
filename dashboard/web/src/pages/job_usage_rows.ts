// What jobs used, as the API lists it: sums by day and project, and the rows as CSV. Pure.
export interface Used { cpu_hours: number; gpu_hours: number; memory_gib_hours: number; attempts: number }
// Without a project: what nothing used.
export interface UsageRow extends Used { day: string; project: string; owner: string }
export type Hours = "gpu_hours" | "cpu_hours" | "memory_gib_hours";

export const kNothing: Used = { cpu_hours: 0, gpu_hours: 0, memory_gib_hours: 0, attempts: 0 };
export const plus = (a: Used, b: Used): Used => ({
  cpu_hours: a.cpu_hours + b.cpu_hours, gpu_hours: a.gpu_hours + b.gpu_hours, memory_gib_hours: a.memory_gib_hours + b.memory_gib_hours, attempts: a.attempts + Number(b.attempts),
});
export const is_idle = (row: UsageRow): boolean => row.project === "";

const kDayMs = 86_400_000;
// The last `count` days in UTC, oldest first: "2026-11-27".
export const days_until = (now_ms: number, count: number): string[] => Array.from({ length: count }, (_, i) => new Date(now_ms - (count - 1 - i) * kDayMs).toISOString().slice(0, 10));

export const rows_of_days = (rows: UsageRow[], days: string[]): UsageRow[] => rows.filter((row) => row.day >= days[0] && row.day <= days[days.length - 1]);

function summed(rows: UsageRow[], key_of: (row: UsageRow) => string): Map<string, Used> {
  const sums = new Map<string, Used>();
  for (const row of rows) sums.set(key_of(row), plus(sums.get(key_of(row)) ?? kNothing, row));
  return sums;
}

export const total_of = (rows: UsageRow[]): Used => rows.reduce<Used>(plus, kNothing);

// A row for each project and owner, without days, and idle last.
export function by_owner(rows: UsageRow[]): UsageRow[] {
  const sums = summed(rows, (row) => JSON.stringify([row.project, row.owner]));
  const all = [...sums].map(([key, used]) => { const [project, owner] = JSON.parse(key) as [string, string]; return { day: "", project, owner, ...used }; });
  return [...all.filter((row) => !is_idle(row)), ...all.filter(is_idle)];
}

const kProjects = 6;  // With a part of their own; the others share one.
export interface DayParts { names: string[]; others: boolean; rows: { day: string; values: number[] }[] }
// For each day the hours of the projects that used most, then of all others together, then idle.
export function by_day(rows: UsageRow[], days: string[], hours: Hours): DayParts {
  const used = rows.filter((row) => !is_idle(row));
  const projects = [...summed(used, (row) => row.project)].filter(([, sum]) => sum[hours] > 0).sort(([a, x], [b, y]) => y[hours] - x[hours] || (a < b ? -1 : 1)).map(([name]) => name);
  const names = projects.slice(0, kProjects);
  const others = projects.length > kProjects;
  const at = new Map(days.map((day, i) => [day, i]));
  const table = days.map((day) => ({ day, values: new Array<number>(names.length + (others ? 1 : 0) + 1).fill(0) }));
  for (const row of rows) {
    const place = at.get(row.day);
    if (place === undefined || !(row[hours] > 0)) continue;
    const values = table[place].values;
    const part = is_idle(row) ? values.length - 1 : names.includes(row.project) ? names.indexOf(row.project) : names.length;
    values[part] += row[hours];
  }
  return { names, others, rows: table };
}

const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
// As `volador job usage --csv` prints it.
export const usage_csv = (rows: UsageRow[]): string =>
  ["day,project,owner,cpu_hours,gpu_hours,memory_gib_hours,attempts", ...[...rows].sort((a, b) => (a.day < b.day ? -1 : a.day > b.day ? 1 : 0)).map((row) => [row.day, quoted(row.project), quoted(row.owner), row.cpu_hours.toFixed(6), row.gpu_hours.toFixed(6), row.memory_gib_hours.toFixed(6), row.attempts].join(","))].join("\n") + "\n";
