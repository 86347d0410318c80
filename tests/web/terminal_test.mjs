// Tests the terminal of a running job with a real head: terminal_test.mjs VOLADOR. VOLADOR_WEB_SHOTS=FOLDER saves screenshots in both themes.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { axe_source, check, equal, open_browser, run, until } from "./harness.mjs";

const [volador] = process.argv.slice(2);
const browser = await open_browser();
const home = mkdtempSync(join(tmpdir(), "volador-web-"));
const env = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CACHE_HOME: join(home, "cache"), XDG_CONFIG_HOME: join(home, "config"), XDG_RUNTIME_DIR: home };
const cli = (...parts) => execFileSync(volador, parts, { env, cwd: home, encoding: "utf8" });
const shots = process.env.VOLADOR_WEB_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const wrong = [];
let page, job, url;
const open_page = async (locale) => {
  const context = await browser.newContext({ locale, viewport: { width: 1440, height: 900 } });
  const made = await context.newPage();
  made.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  made.on("pageerror", (error) => wrong.push(String(error)));
  return made;
};
const go = async (on, path) => {
  await on.evaluate((to) => { location.hash = to; }, path);
  await until("the page shows " + path, async () => (await on.getAttribute("#main", "data-at")) === path);
};
const shown = () => page.locator(".xterm-rows").innerText();
const prompt = () => until("a prompt", async () => /[#$]\s*$/.test((await shown()).trimEnd()));
const shows = (words) => until(`it shows ${words}`, async () => (await shown()).includes(words));
const type = (keys) => page.locator(".xterm-helper-textarea").pressSequentially(keys);

try {
  cli("start", "--head", "--cluster=page", "--name=petrel", "--port=0", "--num-cpus=2");
  job = JSON.parse(cli("job", "submit", "--no-code", "--json", "--env=WORD=of-the-job", "--", "python3", "-u", "-m", "http.server", "0", "--bind=127.0.0.1")).id;
  cli("job", "exec", "--wait", job, "--", "true");
  await run("web_terminal", {
    "the terminal is loaded when it is opened, and runs a shell in the job": async () => {
      page = await open_page("en-US");
      const loaded = [];
      page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
      const once = cli("dashboard").trim();
      url = new URL(once).origin;
      await page.goto(once);
      await until("the overview", async () => (await page.textContent("h1")) === "page");
      await go(page, `/jobs/${job}`);
      await until("the tabs", async () => (await page.locator(".tabs a").count()) === 3);
      check(!loaded.includes("/assets/terminal.js"), "it is not loaded before");
      await page.click(".tabs a >> text=Terminal");
      await prompt();
      check(loaded.includes("/assets/terminal.js"), "it is loaded now");
      await type("echo \"in $WORD\"; tty\r");
      await shows("in of-the-job");
      await shows("/dev/pts/");
    },
    "keys, colours, and the size of the window reach the program": async () => {
      await type("bash -c 'echo u\"\"p; sleep 1000'\r");
      await shows("up");
      await type("\x03");
      await type("echo c''ode $?\r");
      await shows("code 130");
      await type("printf '\\033[38;2;10;200;30mcolo''ured\\033[0m \\033[31mred\\033[0m\\n'\r");
      await shows("coloured");
      equal(await page.evaluate(() => [...document.querySelectorAll(".xterm-rows span")].find((one) => one.textContent.includes("coloured") && !one.textContent.includes("printf"))?.style.color), "rgb(10, 200, 30)", "a colour of its own");
      const columns = async () => {
        await type("clear; echo \"size $(stty size)\" e''nd\r");
        await until("the size", async () => /size \d+ \d+ end/.test(await shown()));
        return Number(/size \d+ (\d+) end/.exec(await shown())[1]);
      };
      const before = await columns();
      await page.setViewportSize({ width: 1000, height: 900 });
      await until("fewer columns", async () => (await columns()) < before);
      await page.setViewportSize({ width: 1440, height: 900 });
    },
    "it takes the colours of the theme, and axe finds nothing": async () => {
      const background = () => page.evaluate(() => getComputedStyle(document.querySelector(".xterm-scrollable-element") ?? document.querySelector(".xterm-viewport")).backgroundColor);
      const before = await background();
      for (const theme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: theme });
        await until("the theme", () => page.evaluate((one) => document.documentElement.dataset.theme === one, theme));
        if (shots) await page.screenshot({ path: join(shots, `terminal-${theme}.png`) });
      }
      await until("another background", async () => (await background()) !== before);
      await page.addScriptTag({ content: axe_source() }).catch(() => page.evaluate(axe_source()));
      const found = await page.evaluate(async () => (await window.axe.run(".terminal-place")).violations.map((one) => one.id));
      equal(found.join(), "", "findings of axe");
      wrong.length = 0;  // The page's policy refuses the inline script.
      await page.emulateMedia({ colorScheme: "light" });
    },
    "the end of the shell is told, and another one is started": async () => {
      await type("exit 3\r");
      await until("its end", async () => (await page.textContent(".terminal-end")).includes("exit code 3"));
      await page.click(".terminal-end button");
      await prompt();
      await type("echo ag''ain\r");
      await shows("again");
    },
    "the shell ends when the page is left": async () => {
      await type("echo p''id $$-\r");
      await until("its number", async () => /pid \d+-/.test(await shown()));
      const pid = Number(/pid (\d+)-/.exec(await shown())[1]);
      await go(page, "/jobs");
      await until("it has ended", async () => cli("job", "exec", job, "--", "bash", "-c", `kill -0 ${pid} 2>&1 || echo gone`).includes("gone"));
    },
    "a server in the job opens in a new tab, which has an origin of its own": async () => {
      await until("its port", () => / port (\d+) /.test(cli("job", "logs", job)));
      const port = / port (\d+) /.exec(cli("job", "logs", job))[1];
      await go(page, `/jobs/${job}`);
      await page.click(".tabs a >> text=Web page");
      await page.fill(".job-port input", port);
      check((await page.textContent(".job-port")).includes(`volador job forward ${job} ${port}`), "the same in a terminal");
      for (const theme of shots ? ["light", "dark"] : []) {
        await page.emulateMedia({ colorScheme: theme });
        await until("the theme", () => page.evaluate((one) => document.documentElement.dataset.theme === one, theme));
        await page.screenshot({ path: join(shots, `job-port-${theme}.png`) });
      }
      const opening = page.context().waitForEvent("page");
      await page.click(".job-port button[type=submit]");
      const tab = await opening;
      await until("the page of the server", async () => (await tab.title().catch(() => "")).startsWith("Directory listing"));
      check(new URL(tab.url()).origin !== url, "another origin");
      equal(new URL(tab.url()).search, "", "the key is gone from the address");
      equal(await tab.evaluate(async (to) => await fetch(`${to}/api/v1/session`, { credentials: "include" }).then(() => "read", () => "refused"), url), "refused", "the dashboard, by its scripts");
      await tab.reload();
      check((await tab.title()).startsWith("Directory listing"), "it is loaded again");
      await tab.close();
      await page.emulateMedia({ colorScheme: "light" });
    },
    "viewers have no terminal": async () => {
      const { token } = JSON.parse(cli("token", "create", "--role=viewer", "--json"));
      const viewer = await open_page("en-US");
      await viewer.goto(url);
      await viewer.fill("input[name=token]", token);
      await viewer.click("form:has(input[name=token]) button");
      await until("the overview", async () => (await viewer.textContent("h1")) === "page");
      await go(viewer, `/jobs/${job}`);
      await until("the log", async () => (await viewer.locator(".logs").count()) === 1);
      equal(await viewer.locator(".tabs a").count(), 0, "tabs");
      const refused = await viewer.evaluate(async (id) => (await fetch(`/api/v1/jobs/${id}/commands`, { method: "POST", headers: { "X-Volador-Request": "1" }, body: "{}" })).status, job);
      equal(refused, 403, "the request itself");
      wrong.splice(0, wrong.length, ...wrong.filter((one) => !/401|403/.test(one)));
      await viewer.context().close();
    },
    "the end of the job ends the terminal with the reason": async () => {
      await go(page, `/jobs/${job}?show=terminal`);
      await prompt();
      cli("job", "stop", "--now", job);
      await until("the log is back", async () => (await page.locator(".terminal-box").count()) === 0);
    },
    "nothing was wrong on the way": async () => {
      equal(wrong.filter((one) => !/Failed to load resource/.test(one)).join("\n"), "", "messages of the console");
    },
  });
} finally {
  await browser.close();
  try {
    cli("stop");
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
