// Browser tabs that are signed in to a simulated cluster (dashboard/web/dev).
import { existsSync } from "node:fs";
import { join } from "node:path";
import { open_browser, run, skip, until, web } from "./harness.mjs";

// Returns what the cases share: the browser, `start` for further clusters, a cluster that does not change, `tab`, and `run_all`, which closes them.
export async function over_made_up_cluster() {
  if (!existsSync(join(web, "node_modules/ws"))) skip("no node_modules; npm ci in dashboard/web");
  const browser = await open_browser();
  const { start } = await import(join(web, "dev/server.mjs"));
  const still = await start({ trials: 120, still: true });
  return {
    browser, start, still, tab: tabs_of(browser, still),
    async run_all(suite, cases) {
      await run(suite, cases);
      await browser.close();
      await still.close();
      process.exit();  // A failed case may have left its server listening.
    },
  };
}

// Opens a signed-in tab and records console errors, page errors and requests to other hosts in `wrong`.
const tabs_of = (browser, usual) => async function tab({ server = usual, token = "vt1.dev", theme = "light", lang = "en-US", phone = false } = {}) {
  const context = await browser.newContext({ colorScheme: theme, locale: lang, viewport: phone ? { width: 390, height: 844 } : { width: 1440, height: 900 }, reducedMotion: "reduce" });
  await context.addCookies([{ name: "volador_session", value: token, url: server.url }]);
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => { if (!request.url().startsWith(server.url) && !request.url().startsWith(server.url.replace("http", "ws"))) wrong.push("request to " + request.url()); });
  await page.goto(server.url + "/");
  await page.waitForSelector("h1");
  return { page, wrong, go: async (path) => {
      await page.evaluate((to) => { location.hash = to; }, path);
      await until("the page shows " + path, async () => (await page.getAttribute("#main", "data-at")) === path);
    }, close: () => context.close() };
};

// Waits until the page has loaded and no placeholder is left.
export const settled = (page) => until("the page is settled", () => page.evaluate(() => document.querySelector("h1") && !document.querySelector(".loading")));
