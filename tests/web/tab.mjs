// Tabs of a browser that is signed in to a made-up cluster.
import { until } from "./harness.mjs";

// A tab that is signed in and notes whatever should not be: errors of the console, requests to elsewhere.
export const tabs_of = (browser, usual) => async function tab({ server = usual, token = "vt1.dev", theme = "light", lang = "en-US", phone = false } = {}) {
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

// Everything that was asked for is there: no bones left.
export const settled = (page) => until("the page is settled", () => page.evaluate(() => document.querySelector("h1") && !document.querySelector(".loading")));
