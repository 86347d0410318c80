// What the head says of a configuration, with the places in the text. Pure.
export interface Finding {
  message: string;
  path: string;    // Path of the value: "searcher.max_trials", "spec.parameters[0].name". Empty: it has none.
  said: string;    // The message without the path.
  file: string;    // Empty: it has no place.
  line: number;    // From 1; 0: it has no place.
  column: number;
  bad: boolean;    // An error rather than a warning.
}

function parts_of(message: string): Pick<Finding, "message" | "path" | "said"> {
  const path = /^([A-Za-z_][\w-]*(?:\[\d+\])*(?:\.[^\s:[\]]+(?:\[\d+\])*)*): /.exec(message)?.[1] ?? "";
  return { message, path, said: path ? message.slice(path.length + 2) : message };
}

// "searcher.max_trials: expected a whole number, got "ten" (config.yaml:10:15)", or "config.yaml:3:5: …".
function finding_of(line: string, bad: boolean): Finding {
  const behind = /^(.*) \(([^()\s]+):(\d+):(\d+)\)$/.exec(line);
  if (behind) return { ...parts_of(behind[1]), file: behind[2], line: Number(behind[3]), column: Number(behind[4]), bad };
  const before = /^([^\s:]+):(\d+):(\d+): (.*)$/.exec(line);
  if (before) return { ...parts_of(before[4]), file: before[1], line: Number(before[2]), column: Number(before[3]), bad };
  return { ...parts_of(line), file: "", line: 0, column: 0, bad };
}

export const findings_of = (text: string, bad: boolean): Finding[] => text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => finding_of(line, bad));

// The part of the text that a finding is about: from its place to the end of the word or of the line.
export function span_of(text: string, { line, column }: Finding): [number, number] | null {
  if (line < 1) return null;
  const lines = text.split("\n");
  const at = Math.min(line, lines.length) - 1;
  const start = lines.slice(0, at).reduce((sum, one) => sum + one.length + 1, 0);
  const from = Math.min(Math.max(0, column - 1), lines[at].length);
  const word = /^(?:"[^"]*"|[^\s:,{}[\]#]+)/.exec(lines[at].slice(from))?.[0].length ?? lines[at].length - from;
  return word > 0 ? [start + from, start + from + word] : [start, start + lines[at].length];
}
