// Texts of the page in the selected language. `{name}` is replaced; {n} selects a form of "one|many".
import { language } from "../prefs";
import { en, type Key } from "./en";
import { fill } from "./fill";
import { said, type Why } from "./reason";
import { zh } from "./zh";

export type { Key };
export const kTexts = { en, zh };

export const t = (key: Key, values: Record<string, string | number> = {}): string => fill(kTexts[language.value][key], values);

// Translates a word of the head, such as "running"; an unknown word is returned unchanged.
export const word = (of: string): string => {
  const key = ("word." + of) as Key;
  return key in en ? t(key) : of;
};
// Translates the state of an actor.
export const actor_word = (of: string): string => (of === "alive" ? t("word.actor_alive") : word(of));
// Returns the reason of a row, translated from its data if possible; else its English text.
export const reason_of = (row: { reason: string; why?: Why | null }): string => (language.value === "zh" && row.why && said(row.why, word)) || row.reason;
// Returns the error of a trial, or its reason if it has no error.
export const why_of = (trial: { error: string; error_why?: Why; reason: string; why?: Why }): string => reason_of(trial.error ? { reason: trial.error, why: trial.error_why } : trial);
export const locale = () => (language.value === "zh" ? "zh-CN" : "en");
