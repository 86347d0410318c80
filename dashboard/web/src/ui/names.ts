// Display names of actors and programs, and names in commands. Pure.
interface Named {
  id: string;
  name?: string;
  display?: string;
  class_name?: string;
}

export const short_class = (name: string | undefined) => (name ?? "").replace(/<.*>/, "").split("::").pop() ?? "";

// Returns the actor's name; for an unnamed actor its display text or class with the start of its id, since many share a class.
export function actor_name(row: Named): string {
  if (row.name) return row.name;
  const shown = row.display && row.display !== row.class_name ? row.display : short_class(row.class_name);
  return /\b[0-9a-f]{6,}\b/.test(shown) ? shown : [shown, row.id.slice(0, 8)].filter(Boolean).join(" ");
}

export const program_name = (path: string): string => path.split("/").pop() || path;

// Splits a long text so that its beginning can be truncated and its last `kept` characters stay visible.
export function ends_of(text: string, kept = 10): [string, string] {
  if (text.length <= kept + 4) return [text, ""];
  const points = [...text];
  const at = points.length - kept;
  return [points.slice(0, at).join(""), points.slice(at).join("")];
}

// A name in a command of a shell.
export const in_shell = (name: string) => (/^[\w.@-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);
