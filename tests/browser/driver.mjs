// One Chromium for all tests. Reads one request per line, {look, url, context, given}: opens the page
// in a context of its own, calls the function `look` of looks.mjs on it, answers with one line.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import * as looks from "./looks.mjs";
import { watch } from "./watch.mjs";

// Debian's Chromium as root, and silent: what a test does not see must not leave the machine either.
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND",
];

// The profile is a new temporary folder each time: Playwright's own doing.
const browser = await chromium.launch({ executablePath: process.argv[2], args: FLAGS });

async function answer({ look, url, context: options, given }) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  try {
    context.setDefaultTimeout(15_000);
    const page = await context.newPage();
    const seen = await watch(page);
    await page.goto(url);
    return { saw: await looks[look](page, given, seen) };
  } catch (error) {
    return { error: error.stack };
  } finally {
    await context.close();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + "\n");
}
await browser.close();
