// Fills texts: selects the form for a number and inserts the values. Pure.
export function fill(text: string, values: Record<string, string | number>): string {
  const forms = text.split("|");
  const chosen = forms.length === 2 ? (values.n === 1 ? forms[0] : forms[1]) : text;
  return chosen.replace(/\{(\w+)\}/g, (place, name: string) => (name in values ? String(values[name]) : place));
}
