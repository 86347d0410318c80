// Colours of charts. Groups: Okabe and Ito's eight colours, distinct under every kind of colour blindness. Values: a ramp of increasing lightness.
import { dark } from "../prefs";

const kGroupsLight = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07b00", "#3a9bd9", "#6b4fbb", "#5b6370"];
const kGroupsDark = ["#56b4e9", "#ff8a3d", "#2fc79b", "#e59ac4", "#f0c04a", "#4f8fe8", "#b09cf5", "#9aa4b2"];
export const group_color = (i: number) => (dark.value ? kGroupsDark : kGroupsLight)[i % 8];

// Viridis; ramp() leaves out the end with too little contrast to the background.
const kRamp = [[68, 1, 84], [70, 50, 127], [54, 92, 141], [39, 127, 142], [31, 161, 135], [74, 194, 109], [159, 218, 58], [253, 231, 37]];
export function ramp(place: number): string {
  const clamped = Math.min(1, Math.max(0, Number.isFinite(place) ? place : 0));
  const [from, to] = dark.value ? [0.25, 1] : [0, 0.85];
  const at = (from + clamped * (to - from)) * (kRamp.length - 1);
  const i = Math.min(kRamp.length - 2, Math.floor(at));
  const mix = kRamp[i].map((value, k) => Math.round(value + (kRamp[i + 1][k] - value) * (at - i)));
  return `rgb(${mix.join(",")})`;
}

export const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
export const status_color = (status: string) => css("st-" + status) || css("muted");
// Makes a colour transparent, so that hundreds of lines stay visible under each other.
export const with_alpha = (color: string, alpha: number) =>
  color.startsWith("#") ? color + Math.round(alpha * 255).toString(16).padStart(2, "0") : color.replace("rgb(", "rgba(").replace(")", `,${alpha})`);
