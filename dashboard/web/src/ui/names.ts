// What people call an actor. Pure.
interface Named {
  id: string;
  name?: string;
  display?: string;
  class_name?: string;
}

export const short_class = (name: string | undefined) => (name ?? "").replace(/<.*>/, "").split("::").pop() ?? "";

// The name that its program gave it; else its class, or what the head shows for it, with the start of its id: many have the same class.
export function actor_name(row: Named): string {
  if (row.name) return row.name;
  const shown = row.display && row.display !== row.class_name ? row.display : short_class(row.class_name);
  return /\b[0-9a-f]{6,}\b/.test(shown) ? shown : [shown, row.id.slice(0, 8)].filter(Boolean).join(" ");
}

export const program_name = (path: string): string => path.split("/").pop() || path;

// Where a text that is too long is cut: its beginning may go, its end stays.
export function ends_of(text: string, kept = 10): [string, string] {
  if (text.length <= kept + 4) return [text, ""];
  const points = [...text];
  const at = points.length - kept;
  return [points.slice(0, at).join(""), points.slice(at).join("")];
}
