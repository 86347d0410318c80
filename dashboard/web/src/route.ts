// Parses and builds addresses of the page. Pure.
export interface Route {
  path: string[];
  query: Record<string, string>;
}

const decode = (text: string) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;  // Malformed escape, for example in a truncated link.
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
