// Addresses of the page as text and back. Pure.
export interface Route {
  path: string[];
  query: Record<string, string>;
}

const decode = (text: string) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;  // A link that somebody cut in the middle.
  }
};

export function parse(text: string): Route {
  const cut = text.indexOf("?");
  const path = (cut < 0 ? text : text.slice(0, cut)).split("/").filter(Boolean).map(decode);
  const query: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1))) query[key] = value;
  return { path, query };
}

export function build({ path, query }: Route): string {
  const search = new URLSearchParams(query).toString();
  return "/" + path.map(encodeURIComponent).join("/") + (search ? "?" + search : "");
}
