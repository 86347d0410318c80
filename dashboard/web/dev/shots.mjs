// Takes screenshots of every page: node dev/shots.mjs OUT [--only=overview] [--trials=240] [--themes=dark,light] [--langs=en,zh] [--phone]
import { chromium } from "playwright-core";
import { existsSync, mkdirSync } from "node:fs";
import { start } from "./server.mjs";

const out = process.argv[2];
const option = (name, fallback) => process.argv.find((one) => one.startsWith(`--${name}=`))?.split("=").slice(1).join("=") ?? fallback;
mkdirSync(out, { recursive: true });
const server = await start({ trials: Number(option("trials", "240")) });
const browser = await chromium.launch({ executablePath: [process.env.VOLADOR_CHROMIUM, "/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((one) => one && existsSync(one)), args: ["--no-sandbox"] });
const first = server.world.tables.actors.keys().next().value;
const trial = [...server.world.trials.get("digits").values()].find((row) => row.status === "stopped").id;
const pages = {
  signin: null, overview: "/", experiments: "/experiments", curves: "/experiments/digits", lr: "/experiments/digits?by=lr&smooth=0.5&x=log", trials: "/experiments/digits?tab=trials", rungs: "/experiments/digits?tab=rungs",
  parallel: "/experiments/digits?tab=parallel", brush: "/experiments/digits?tab=parallel&brush=lr%3D0.500%2C0.900", scatter: "/experiments/digits?tab=scatter", importance: "/experiments/digits?tab=importance", gantt: "/experiments/digits?tab=gantt", compare: "/compare?of=digits%0Aresnet-width-sweep", hour: "/nodes/osprey?range=hour", trial: `/experiments/digits/trials/${trial}`, history: "/experiments/digits?tab=history", pareto: "/experiments/digits?tab=pareto", studies: "/studies", study: "/studies/boosting", nodes: "/nodes", node: "/nodes/osprey",
  actors: "/actors", actor: "/actors/" + first, queue: "/queue?id=q1a2b3c4d5e6f702", jobs: "/jobs", job: "/jobs/job-7", job_failed: "/jobs/job-2", job_queued: "/jobs/job-8", job_queue: "/job_queue", job_usage: "/job_usage", groups: "/groups", group: "/groups/a71c0f2255d04e10", waiting: "/groups/d9914b7c02e6f5a8", objects: "/objects", object: "/objects?tab=objects", stores: "/objects?tab=stores", logs: "/logs?node=heron", whole: "/logs?node=heron&view=all&line=1000", events: "/events", drivers: "/drivers", tokens: "/tokens", audit: "/audit", driver: "/drivers/4f1c22aa90b1",
};
const only = option("only", "").split(",").filter(Boolean);
for (const theme of option("themes", "dark").split(",")) for (const lang of option("langs", "en").split(",")) for (const phone of process.argv.includes("--phone") ? [true] : [false]) {
  const context = await browser.newContext({ colorScheme: theme, locale: lang === "zh" ? "zh-CN" : "en-US", viewport: phone ? { width: 390, height: 844 } : { width: 1440, height: 900 }, deviceScaleFactor: 1 });
  const page = await context.newPage();
  page.on("console", (message) => { if (message.type() === "error" || message.type() === "warning") console.log("console:", message.text()); });
  page.on("pageerror", (error) => console.log("pageerror:", error.stack));
  for (const [name, path] of Object.entries(pages)) {
    if (only.length && !only.includes(name)) { if (name === "signin") await page.goto(server.url + "/login?key=once"); continue; }
    if (path === null) { await page.goto(server.url); await page.waitForSelector("form"); }
    else await page.goto(server.url + "/#" + path);
    await page.waitForTimeout(name === "overview" ? 1800 : 1300);
    await page.screenshot({ path: `${out}/${name}-${theme}-${lang}${phone ? "-phone" : ""}.png` });
    if (path === null) await page.goto(server.url + "/login?key=once");
  }
  await context.close();
}
await browser.close();
await server.close();
