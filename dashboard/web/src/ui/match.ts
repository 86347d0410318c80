// Fuzzy match of a typed text with a name: -1 for no match, else a score, where higher is better. Letters must occur in order. Pure.
export function fits(typed: string, name: string): number {
  const wanted = typed.trim().toLowerCase();
  const text = name.toLowerCase();
  if (!wanted) return 0;
  const whole = text.indexOf(wanted);
  if (whole >= 0) return 1000 - whole * 2 - text.length / 100 + (whole === 0 || /\W/.test(text[whole - 1]) ? 200 : 0);
  let at = -1;
  let gaps = 0;
  for (const letter of wanted) {
    const next = text.indexOf(letter, at + 1);
    if (next < 0) return -1;
    gaps += next - at - 1;
    at = next;
  }
  return Math.max(0, 500 - gaps * 4);
}
