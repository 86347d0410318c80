// Texts as YAML, for files that the command line takes. Pure.

// Words and numbers that YAML would not read as a text.
const kOther = /^(?:true|false|yes|no|on|off|y|n|null|~|[-+.]?[\d.][\d_.eExXa-fA-F+:-]*|\.(?:inf|nan))$/i;

// A text, in double quotes where YAML needs them.
export const yaml_text = (text: string): string => (/^[A-Za-z0-9_./~][\w./@%+=:~-]*$/.test(text) && !text.endsWith(":") && !kOther.test(text) ? text : JSON.stringify(text));

export const yaml_list = (texts: string[]): string => `[${texts.map((one) => (/^[\w./-]+$/.test(one) ? yaml_text(one) : JSON.stringify(one))).join(", ")}]`;

// The value of a key at this depth: texts of several lines keep their lines.
export function yaml_value(text: string, depth: number): string {
  const plain = !/[^\n\x20-\x7e\u00a0-\ud7ff\ue000-\ufffd]/.test(text);
  if (!text.includes("\n") || !plain || /^\s/.test(text) || /\s$/.test(text) || /\n[ \t]+(?:\n|$)/.test(text)) return yaml_text(text);
  const margin = " ".repeat(depth * 2);
  return "|-\n" + text.split("\n").map((line) => line && margin + line).join("\n");
}

const kGiB = 2 ** 30;
// A size that a person can read, without loss.
export const yaml_bytes = (bytes: number): string => (bytes > 0 && bytes % kGiB === 0 ? `${bytes / kGiB}GiB` : String(bytes));
