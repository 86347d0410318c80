// English texts of reasons. Rows have them already; they are loaded for parts of a reason that are shown by themselves.
import catalogue from "./reasons.json?english";
import type { Sentences } from "./reason";

export const kEnglish: Sentences = catalogue;
