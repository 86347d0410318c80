// Preferences stored in this browser, such as theme and language; the defaults come from the system.
import { computed, effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type Language = "en" | "zh";

export const read = (key: string) => {
  try {
    return localStorage.getItem("volador." + key);
  } catch {
    return null;  // Storage may be blocked; preferences then last as long as the tab.
  }
};
export const write = (key: string, value: string) => {
  try {
    localStorage.setItem("volador." + key, value);
  } catch {
    // Storage may be blocked; see read().
  }
};

const stored_theme = read("theme");
export const theme = signal<Theme>(stored_theme === "light" || stored_theme === "dark" ? stored_theme : "system");
const stored_language = read("language");
export const language = signal<Language>(
  stored_language === "en" || stored_language === "zh" ? stored_language : navigator.language.startsWith("zh") ? "zh" : "en",
);

const media = (query: string) => {
  const list = matchMedia(query);
  const matches = signal(list.matches);
  list.addEventListener("change", () => (matches.value = list.matches));
  return matches;
};
const system_dark = media("(prefers-color-scheme: dark)");
export const narrow = media("(max-width: 760px)");
export const window_height = signal(innerHeight);
addEventListener("resize", () => (window_height.value = innerHeight));
// A chart fills the window below the page's header; 300 px are left for its controls and the parts below it.
export const chart_height = computed(() => (narrow.value ? 320 : Math.max(320, Math.min(1100, window_height.value - 300))));
export const dark = computed(() => (theme.value === "system" ? system_dark.value : theme.value === "dark"));

// Widths in px and order of the columns that the user changed, by table, then by key of the column.
export interface Columns {
  widths?: Record<string, number>;
  order?: string[];
}
const stored = <T>(key: string): Record<string, T> => {
  try {
    return JSON.parse(read(key) ?? "{}");
  } catch {
    return {};  // Invalid, for example written by another version.
  }
};
export const columns_of = signal(stored<Columns>("columns"));
export function set_columns(table: string, change: Columns): void {
  columns_of.value = { ...columns_of.value, [table]: { ...columns_of.value[table], ...change } };
}
effect(() => write("columns", JSON.stringify(columns_of.value)));

// Queries of experiment pages, by the name of the saved view.
export const saved_views = signal(stored<Record<string, string>>("views"));
effect(() => write("views", JSON.stringify(saved_views.value)));

effect(() => {
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
  write("theme", theme.value);
});
effect(() => {
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
  write("language", language.value);
});
