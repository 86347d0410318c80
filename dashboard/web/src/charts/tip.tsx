// Tooltip of a chart, on the side of the pointer that has more room.
import type { ComponentChildren } from "preact";

// `x`, `y`: position of the item in the chart; `width`: width of the chart. `about`: names and values, one per line.
export function Tip({ x, y, width, color, title, value, about, children }: {
  x: number; y: number; width: number; color?: string; title: string; value?: string; about?: [string, string][]; children?: ComponentChildren;
}) {
  const side = x > width / 2 ? { right: width - x + 14 + "px" } : { left: x + 14 + "px" };
  return (
    <div class="tip" style={{ ...side, top: Math.max(0, y - 8) + "px" }}>
      {color && <i style={{ background: color }} />}
      <b>{title}</b>
      {value !== undefined && <span>{value}</span>}
      {children}
      {about && about.length > 0 && <dl>{about.map(([name, shown]) => <div key={name}><dt>{name}</dt><dd>{shown}</dd></div>)}</dl>}
    </div>
  );
}
