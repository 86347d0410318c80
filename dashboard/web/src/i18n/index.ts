// Texts of the page in the chosen language. `{name}` is replaced; "one|many" is chosen by {n}.
import { language } from "../prefs";
import { en, type Key } from "./en";
import { fill } from "./fill";
import { said, type Why } from "./reason";
import { zh } from "./zh";

export type { Key };
export const kTexts = { en, zh };

export const t = (key: Key, values: Record<string, string | number> = {}): string => fill(kTexts[language.value][key], values);

// A word of the head ("running"), in the language of the page; as it is where we do not know it.
export const word = (of: string): string => {
  const key = ("word." + of) as Key;
  return key in en ? t(key) : of;
};
// The same of an actor's state.
export const actor_word = (of: string): string => (of === "alive" ? t("word.actor_alive") : word(of));
// Why something is as it is: from its data, else its text.
export const reason_of = (row: { reason: string; why?: Why | null }): string => (language.value === "zh" && row.why && said(row.why, word)) || row.reason;
// The error of a trial; where it has none, its reason.
export const why_of = (trial: { error: string; error_why?: Why; reason: string; why?: Why }): string => reason_of(trial.error ? { reason: trial.error, why: trial.error_why } : trial);
export const locale = () => (language.value === "zh" ? "zh-CN" : "en");
