// Time axis of a training run, drawn anew with its parent: the size of its group as a line of steps, with a mark for each fault, change and note; and the same as a list.
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { clock, date_time } from "../format";
import { locale, t } from "../i18n";
import { head_now } from "../live/use";
import { round_ticks, time_ticks } from "../charts/axes";
import { Canvas, type Paper } from "../charts/canvas";
import { css, status_color, with_alpha } from "../charts/colors";
import { ChartFrame, DataTable } from "../charts/frame";
import { Tip } from "../charts/tip";
import { Card, count } from "../ui/parts";
import { first_line, world_of, type RunEvent, type RunParts } from "./training_rows";

const kHeight = 150;
const kLeft = 30;
const kRight = 12;
const kTop = 14;
const kBottom = 22;
const kReach = 12;  // px from the pointer to a mark.

const kTones = { fault: "bad", group: "live", note: "calm" } as const;

// Sentence of an event. Errors and notes are texts of the program.
export function event_text({ kind, rank, text, workers, before, step }: RunEvent): string {
  if (kind === "note") return text;
  if (kind === "fault") return rank === null ? t("train.fault", { text: first_line(text) }) : t("train.fault_of", { rank, text: first_line(text) });
  const from = step === null || step === 0 ? "" : t("train.from_step", { step: count(step) });
  if (before === null) return t("train.begins", { n: workers }) + from;
  return before === workers ? t("train.again", { n: workers }) + from : t("train.resized", { n: workers, before }) + from;
}

export function TrainingTime({ parts }: { parts: RunParts }) {
  const { run, events } = parts;
  const from = run?.started_ms ?? events[0]?.time ?? 0;
  const to = Math.max(run?.ended_ms ?? Math.floor(head_now() / 1000) * 1000, from + 1000);
  const world = useMemo(() => world_of(events, from), [events, from]);
  const most = world.reduce((top, one) => Math.max(top, one.workers), 1);
  const scale = useRef({ x: (time: number) => time, y: (workers: number) => workers, width: 0 });
  const [hover, set_hover] = useState<RunEvent | null>(null);
  const draw = useCallback((paper: Paper) => {
    const { width } = paper;
    scale.current = { width, x: (time) => kLeft + ((time - from) / (to - from)) * (width - kLeft - kRight), y: (workers) => kTop + (1 - workers / most) * (kHeight - kTop - kBottom) };
    paint(paper, world, events, { from, to, most, ...scale.current });
  }, [world, events, from, to, most]);
  const over = useCallback(({ canvas }: Paper) => {
    if (!hover) return;
    canvas.strokeStyle = css("text");
    canvas.lineWidth = 2;
    canvas.beginPath();
    canvas.arc(scale.current.x(hover.time), scale.current.y(height_of(hover)), 8, 0, 2 * Math.PI);
    canvas.stroke();
  }, [hover, from, to, most]);
  const move = (x: number, y: number) => {
    let best: RunEvent | null = null;
    let best_far = kReach;
    for (const event of events) {
      const far = Math.hypot(scale.current.x(event.time) - x, (scale.current.y(height_of(event)) - y) / 4);
      if (far <= best_far) [best, best_far] = [event, far];
    }
    set_hover(best);
  };
  const label = t("train.time.label", { n: events.filter((one) => one.kind === "fault").length, shown: count(events.filter((one) => one.kind === "group").length) });
  return (
    <Card title={t("train.time")}>
      <ChartFrame label={label} table={() => <DataTable heads={[t("chart.time"), t("train.workers"), t("col.what")]} rows={[...events].reverse().map((one) => [clock(one.time, locale()), one.kind === "note" ? "–" : count(one.workers), event_text(one)])} />}>
        <Canvas height={kHeight} draw={draw} over={over} on_move={move} on_leave={() => set_hover(null)} label={label} />
        {hover && (
          <Tip x={scale.current.x(hover.time)} y={scale.current.y(height_of(hover)) + 12} width={scale.current.width} color={color_of(hover)} title={clock(hover.time, locale())}>
            <small>{event_text(hover)}{hover.cause && <> {t("train.cause", { cause: hover.cause })}</>}</small>
          </Tip>
        )}
      </ChartFrame>
      {events.length === 0 ? <p class="quiet-line">{t("train.time.none")}</p> : (
        <ol class="changes events" tabIndex={0} aria-label={t("train.events")}>
          {[...events].reverse().map((one) => (
            <li key={one.id} class={`tone-${kTones[one.kind]}`}>
              <time title={date_time(one.time, locale())}>{clock(one.time, locale())}</time>
              <span>{event_text(one)}{one.text.includes("\n") && <details><summary>{t("train.more")}</summary><pre class="words">{one.text.slice(first_line(one.text).length + 1)}</pre></details>}</span>
            </li>
          ))}
        </ol>
      )}
    </Card>
  );
}

// Notes lie on the axis, faults at the size that the group had, changes at the new one.
const height_of = (event: RunEvent): number => (event.kind === "note" ? 0 : event.kind === "fault" ? event.before ?? event.workers : event.workers);
const color_of = (event: RunEvent): string => (event.kind === "fault" ? status_color("failed") : event.kind === "group" ? status_color("running") : css("faint"));

function paint({ canvas, width }: Paper, world: { time: number; workers: number }[], events: RunEvent[], { from, to, most, x, y }: { from: number; to: number; most: number; x: (time: number) => number; y: (workers: number) => number }): void {
  const floor = y(0);
  canvas.textBaseline = "middle";
  canvas.textAlign = "right";
  for (const mark of round_ticks(0, most, Math.min(4, most)).filter(Number.isInteger)) {
    canvas.fillStyle = css("grid");
    canvas.fillRect(kLeft, Math.round(y(mark)), width - kLeft - kRight, 1);
    canvas.fillStyle = css("muted");
    canvas.fillText(count(mark), kLeft - 6, y(mark));
  }
  canvas.textAlign = "center";
  canvas.fillStyle = css("muted");
  for (const time of time_ticks(from, to, Math.max(2, (width - kLeft) / 110))) {
    const text = clock(time, locale());
    const half = canvas.measureText(text).width / 2;
    canvas.fillText(text, Math.max(kLeft + half, Math.min(x(time), width - half)), kHeight - 8);
  }
  const color = status_color("running");
  canvas.beginPath();
  canvas.moveTo(x(from), floor);
  world.forEach((one, i) => {
    canvas.lineTo(x(one.time), y(one.workers));
    canvas.lineTo(x(world[i + 1]?.time ?? to), y(one.workers));
  });
  canvas.strokeStyle = color;
  canvas.lineWidth = 2;
  canvas.stroke();
  canvas.lineTo(x(to), floor);
  canvas.fillStyle = with_alpha(color, 0.14);
  canvas.fill();
  for (const event of [...events].sort((a, b) => Number(a.kind === "fault") - Number(b.kind === "fault"))) mark(canvas, event, x(event.time), y(height_of(event)));
}

// The marks differ in shape as well as in colour: a cross, a disc, a small square.
function mark(canvas: CanvasRenderingContext2D, event: RunEvent, x: number, y: number): void {
  canvas.fillStyle = canvas.strokeStyle = color_of(event);
  if (event.kind === "note") return canvas.fillRect(x - 3, y - 3, 6, 6);
  if (event.kind === "group") {
    canvas.beginPath();
    canvas.arc(x, y, 4, 0, 2 * Math.PI);
    return canvas.fill();
  }
  for (const [line, color] of [[6, css("panel")], [3, color_of(event)]] as const) {
    canvas.lineWidth = line;
    canvas.strokeStyle = color;
    canvas.beginPath();
    canvas.moveTo(x - 5, y - 5);
    canvas.lineTo(x + 5, y + 5);
    canvas.moveTo(x + 5, y - 5);
    canvas.lineTo(x - 5, y + 5);
    canvas.stroke();
  }
}
