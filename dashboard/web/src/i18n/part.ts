// Texts of a part of the page that is loaded when it is opened, so that they do not make the first page larger.
import { language } from "../prefs";
import { fill } from "./fill";

// A function like t() for these texts. Both languages have the same keys.
export const texts_of = <Name extends string>(en: Record<Name, string>, zh: Record<Name, string>) =>
  (name: Name, values: Record<string, string | number> = {}): string => fill((language.value === "zh" ? zh : en)[name], values);
