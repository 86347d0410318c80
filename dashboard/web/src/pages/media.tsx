// Histograms and images that a trial reported, read from its event file.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { t } from "../i18n";
import type { Experiment, RunFile, Trial } from "../live/protocol";
import { axis_of, ticks, type Axis } from "../charts/axes";
import { Canvas, type Paper } from "../charts/canvas";
import { css, group_color, with_alpha } from "../charts/colors";
import { ChartFrame, DataTable } from "../charts/frame";
import { Tip } from "../charts/tip";
import { Card, Select, count, failure, num, size } from "../ui/parts";
import { file_href } from "./downloads";
import { EventFile, quantile, type HistogramAt, type ImageAt } from "./event_file";

const kUnasked = 2 << 20;  // Largest file, in bytes, that is loaded and reloaded automatically.

interface Found {
  bytes: number;  // Size of the file when it was read.
  histograms: [string, HistogramAt[]][];
  images: [string, ImageAt[]][];
}

async function read(href: string, bytes: number, gone: AbortSignal): Promise<Found> {
  const answer = await fetch(href, { credentials: "same-origin", headers: { "X-Volador-Request": "1" }, signal: gone });
  if (!answer.ok || !answer.body) throw new ApiError(answer.status, "", answer.statusText, "");
  const events = new EventFile();
  const reader = answer.body.getReader();
  for (let part = await reader.read(); !part.done && events.add(part.value); part = await reader.read());
  void reader.cancel();
  return { bytes, histograms: events.histograms(), images: events.images() };
}

// Renders nothing without an event file, or if the file has no histograms and images.
export function Media({ experiment, trial, files }: { experiment: Experiment; trial: Trial; files: RunFile[] }) {
  const file = files.filter((one) => one.name.startsWith("events.out.tfevents.")).sort((a, b) => (a.name < b.name ? -1 : 1)).pop();
  const [found, set_found] = useState<Found | null>(null);
  const [error, set_error] = useState("");
  const [asked, set_asked] = useState(0);
  const loading = useRef<AbortController | null>(null);
  useEffect(() => {
    if (!file || loading.current || found?.bytes === file.bytes || (file.bytes > kUnasked && !asked)) return;
    const gone = (loading.current = new AbortController());
    read(file_href(experiment.name, trial.id, file.name), file.bytes, gone.signal)
      .then((read_now) => { set_found(read_now); set_error(""); }, (failed) => { if (!gone.signal.aborted) set_error(failure(failed).what); })
      .finally(() => { loading.current = null; set_asked(0); });
  }, [file?.name, file?.bytes, asked, found]);
  useEffect(() => () => loading.current?.abort(), []);
  if (!file || (found && !found.histograms.length && !found.images.length && found.bytes === file.bytes) || (!found && !error && file.bytes <= kUnasked)) return null;
  const newer = file.bytes > kUnasked && found?.bytes !== file.bytes;
  const button = newer && <button type="button" class="button small" disabled={Boolean(asked)} onClick={() => set_asked((n) => n + 1)}>{t(found ? "media.again" : "media.show")} <small class="num">{size(file.bytes)}</small></button>;
  return (
    <>
      {!found && <Card title={t("media.title")} action={button}><p class="quiet-line">{error || t("media.what")}</p></Card>}
      {found && found.histograms.length > 0 && <Histograms of={found.histograms} action={button} />}
      {found && found.images.length > 0 && <Images of={found.images} action={button} />}
    </>
  );
}

const names_of = (of: [string, unknown][]) => of.map(([name]): [string, string] => [name, name]);

// Images by step, newest first.
function Images({ of, action }: { of: [string, ImageAt[]][]; action: preact.ComponentChildren }) {
  const [chosen, set_chosen] = useState("");
  const [back, set_back] = useState(0);  // Number of steps before the newest.
  const [name, steps] = of.find(([one]) => one === chosen) ?? of[0];
  const at = Math.max(0, steps.length - 1 - back);
  const image = steps[at];
  const href = useMemo(() => data_url(image.png), [image]);
  return (
    <Card title={t("media.images")} action={action}>
      <div class="chart-tools">
        {of.length > 1 && <Select label={t("col.name")} value={name} on_change={set_chosen} options={names_of(of)} />}
        {steps.length > 1 && <label class="range"><span>{t("col.step")}</span><input type="range" min="0" max={steps.length - 1} value={at} onInput={(event) => set_back(steps.length - 1 - Number(event.currentTarget.value))} /></label>}
        <span class="note num">{of.length === 1 && `${name} · `}{t("media.image", { step: count(image.step), width: image.width, height: image.height })}</span>
      </div>
      <img class="reported-image" src={href} width={image.width} height={image.height} style={{ width: `min(100%, ${shown_width(image)}px)` }} alt={t("media.image.alt", { name, step: count(image.step) })} />
    </Card>
  );
}

// Enlarges small images by an integer factor.
const shown_width = (image: ImageAt) => image.width * Math.max(1, Math.floor(280 / Math.max(1, image.width, image.height)));

function data_url(png: Uint8Array): string {
  let text = "";
  for (let at = 0; at < png.length; at += 32768) text += String.fromCharCode(...png.subarray(at, at + 32768));
  return "data:image/png;base64," + btoa(text);
}

const kHeight = 280;
const kPad = { left: 64, right: 12, top: 12, bottom: 34 };

function Histograms({ of, action }: { of: [string, HistogramAt[]][]; action: preact.ComponentChildren }) {
  const [chosen, set_chosen] = useState("");
  const [name, steps] = of.find(([one]) => one === chosen) ?? of[0];
  const width = useRef(0);
  const [hover, set_hover] = useState(-1);
  const axis = useMemo(() => axis_of(name, steps.filter((one) => one.count).flatMap((one) => [one.low, one.high])), [steps]);
  const draw = useCallback((paper: Paper) => { width.current = paper.width; paint(paper, steps, axis); }, [steps, axis]);
  const column = () => (width.current - kPad.left - kPad.right) / steps.length;
  const title = t("media.histogram", { name });
  const under = steps[hover];
  const numbers = (one: HistogramAt): [string, string][] => [
    [t("media.mean"), num(one.mean)], [t("media.high"), num(one.high)], ["75 %", num(quantile(one, 0.75))], [t("media.median"), num(quantile(one, 0.5))], ["25 %", num(quantile(one, 0.25))], [t("media.low"), num(one.low)], [t("media.count"), count(one.count)],
  ];
  return (
    <Card title={t("media.histograms")} action={action}>
      <ChartFrame label={title} tools={<>{of.length > 1 && <Select label={t("col.name")} value={name} on_change={set_chosen} options={names_of(of)} />}{of.length === 1 && <span class="note">{name}</span>}</>}
        table={() => <DataTable heads={[t("col.step"), ...numbers(steps[0]).map(([head]) => head)]} rows={[...steps].reverse().map((one) => [count(one.step), ...numbers(one).map(([, value]) => value)])} />}>
        <Canvas height={kHeight} draw={draw} label={title} on_leave={() => set_hover(-1)}
          on_move={(x) => { const i = Math.floor((x - kPad.left) / column()); set_hover(i >= 0 && i < steps.length ? i : -1); }} />
        {under && <Tip x={kPad.left + (hover + 0.5) * column()} y={kPad.top} width={width.current} title={`${t("col.step")} ${count(under.step)}`} about={numbers(under)} />}
      </ChartFrame>
    </Card>
  );
}

// Draws one column per step; the more values in a bucket, the stronger its colour.
function paint({ canvas, width }: Paper, steps: HistogramAt[], axis: Axis): void {
  const [inner_width, inner_height] = [width - kPad.left - kPad.right, kHeight - kPad.top - kPad.bottom];
  const y_of = (value: number) => kPad.top + inner_height * (1 - (axis.high > axis.low ? (value - axis.low) / (axis.high - axis.low) : 0.5));
  const column = inner_width / steps.length;
  steps.forEach((one, i) => {
    const from = one.limits.map((_, k) => (k === 0 ? one.low : Math.max(one.low, one.limits[k - 1])));
    const density = one.counts.map((many, k) => many / Math.max(1e-300, Math.min(one.limits[k], one.high) - from[k]));
    const most = Math.max(...density);
    one.counts.forEach((many, k) => {
      if (!many) return;
      const [top, bottom] = [y_of(Math.min(one.limits[k], one.high)), y_of(from[k])].map(Math.round);
      const [left, right] = [i, i + 1].map((edge) => Math.round(kPad.left + edge * column));
      canvas.fillStyle = with_alpha(group_color(0), 0.08 + (0.92 * density[k]) / most);
      canvas.fillRect(left, top, right - left, Math.max(2, bottom - top));
    });
  });
  canvas.fillStyle = css("muted");
  canvas.textBaseline = "middle";
  canvas.textAlign = "right";
  for (const tick of ticks(axis)) canvas.fillText(typeof tick.value === "number" ? num(tick.value) : tick.value, kPad.left - 8, y_of(Number(tick.value)));
  canvas.textAlign = "center";
  const every = Math.ceil(steps.length / Math.max(1, Math.floor(inner_width / 70)));
  steps.forEach((one, i) => { if (i % every === 0) canvas.fillText(count(one.step), kPad.left + (i + 0.5) * column, kHeight - kPad.bottom + 12); });
  canvas.fillText(t("col.step").toLowerCase(), kPad.left + inner_width / 2, kHeight - 8);
}
