// What the tests look at. Each function is given an open page, the arguments of the test and what was
// seen of the page so far (watch.mjs), and returns plain data; what must hold stands in the tests.
import { readFileSync } from "node:fs";

const source = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
const PROBE = source("probe.js");

const unfold = (page) =>
  page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));

/** Everything that a reader can press, pressed; only downloads have a test of their own. */
export async function press_everything(page, given, seen) {
  for (const language of ["vi", "en"]) {
    await page.locator(`a[hreflang=${language}]:visible`).first().click();
    await page.evaluate(() => {
      const all = (selector) =>
        [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility());
      for (const selector of ["summary", "button", "nav a", "td a, th a, p a, li a"]) {
        all(selector)
          .filter((element) => !element.hreflang && !element.closest("#files, [data-file]"))
          .forEach((element) => element.click());
      }
    });
    await page.locator("footer:visible").last().scrollIntoViewIfNeeded();
  }
  await page.emulateMedia({ media: "print" });
  return seen;
}

/** Nothing but the page as it opened, given a moment. */
export async function wait(page, given, seen) {
  await page.waitForTimeout(200);
  return seen;
}

/** Which language is on the screen, and where the page stands. */
function place(page) {
  return page.evaluate(() => {
    const pages = [...document.querySelectorAll(".page")].filter((p) => p.checkVisibility());
    const target = document.getElementById(location.hash.slice(1));
    return {
      shown: pages.map((p) => p.id),
      spoken: pages.map((p) => p.lang),
      document: document.documentElement.lang,
      title: document.title,
      headings: pages.flatMap((p) => [...p.querySelectorAll("h1")].map((h) => h.textContent)),
      buttons: document.querySelectorAll("button").length, // made by the script
      hash: location.hash,
      // how far below the upper edge of the window the target of the address begins
      top: target ? target.getBoundingClientRect().top / innerHeight : null,
    };
  });
}

/** Places before and after: the switch to the other language, a link there, twice back. */
export async function switch_language(page, { to }) {
  const before = await place(page);
  await page.locator(`a[hreflang=${to}]:visible`).first().click();
  const switched = await place(page);
  await page.locator(".page:visible nav a[href$='latency']").first().click();
  const followed = await place(page);
  await page.goBack();
  await page.goBack();
  return { before, switched, followed, back: await place(page) };
}

export const open = (page) => place(page);

/** What is on the screen and matches; found once, since a search takes long on a large page. */
const visible = (page, selector) => page.locator(selector).filter({ visible: true }).elementHandles();

/** Clicks visible links that match, one for each address; the downloads, stored below `folder`. */
export async function download(page, { links, folder }) {
  const stored = [];
  const done = new Set();
  await unfold(page);
  for (const link of await visible(page, links)) {
    const address = await link.getAttribute("href");
    if (done.has(address)) continue;
    done.add(address);
    const started = page.waitForEvent("download");
    await link.click();
    const file = await started;
    const path = `${folder}/${stored.length}`;
    await file.saveAs(path);
    const href = address.slice(0, 60);
    stored.push({ href, name: file.suggestedFilename(), path });
    // Chromium drops what a page sends beyond ten files in a second
    await page.waitForTimeout(110);
  }
  return stored;
}

/** Text of each command on the screen, beside what its copy button leaves in the clipboard. */
export async function copy(page, { clipboard }) {
  const copied = [];
  await unfold(page);
  await page.evaluate((there) => {
    globalThis.kept = navigator.clipboard;
    if (!there) Object.defineProperty(navigator, "clipboard", { value: undefined });
  }, clipboard);
  for (const button of await visible(page, "button.copy")) {
    await button.click();
    // the button's row says so when the copy is made
    const said = await button.evaluateHandle((b) => b.parentElement.querySelector("[aria-live]"));
    await page.waitForFunction((said) => said.textContent, said);
    const texts = await button.evaluate(async (b) => ({
      command: document.evaluate("following::pre[1]", b).iterateNext().textContent,
      clipboard: await kept.readText(),
    }));
    copied.push({ ...texts, said: await said.textContent() });
  }
  return copied;
}

/** At each width in px: how wide the page is, and texts that are cut off. */
export async function widths(page, { widths }) {
  const found = [];
  await page.evaluate(PROBE);
  await unfold(page);
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    const told = await page.evaluate(() => ({
      page: document.scrollingElement.scrollWidth,
      window: innerWidth,
      texts: [...probe.texts()].length,
      cut: probe.cutTexts(),
      broken: probe.brokenWords(),
    }));
    found.push({ width, ...told });
  }
  return found;
}

/** Tab from the top until it comes round: the stops in order, and what it never reached. */
export async function tab_through(page, { wanted }) {
  await page.evaluate(PROBE);
  await page.evaluate(() => (globalThis.reached = new Set()));
  const stops = [];
  for (;;) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const at = document.activeElement;
      if (at === document.body || reached.has(at)) return null;
      reached.add(at);
      const { outlineStyle, outlineWidth } = getComputedStyle(at);
      const box = at.getBoundingClientRect();
      return {
        name: probe.name(at),
        outline: outlineStyle === "none" ? 0 : parseFloat(outlineWidth),
        inWindow: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        language: at.closest(".page")?.id ?? "",
      };
    });
    if (!stop) break;
    stops.push(stop);
  }
  const missed = await page.evaluate(
    (selectors) =>
      selectors.map((selector) => {
        const all = [...document.querySelectorAll(selector)].filter(probe.isSeen);
        const left = all.filter((element) => !reached.has(element));
        return { selector, count: all.length, missed: left.map(probe.name) };
      }),
    wanted,
  );
  return { stops, missed };
}

/** Where the skip link leads, and whether the arrow keys move the first box that is too wide. */
export async function use_keys(page) {
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const after_skip = await page.evaluate(() => location.hash);
  const wide = await page.evaluateHandle(() =>
    [...document.querySelectorAll(".scroll")].find((box) => box.scrollWidth > box.clientWidth + 20),
  );
  await wide.focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForTimeout(300);
  return { after_skip, scrolled: await wide.evaluate((box) => box.scrollLeft) };
}

/** Colours of the page and of the texts in its figures. */
export async function colours(page) {
  await page.evaluate(PROBE);
  return page.evaluate(() => probe.colours());
}

/** Contrast of all texts with what is behind them: how many, and those below `limit`. */
export async function contrasts(page, { limit }) {
  await page.evaluate(PROBE);
  await unfold(page);
  return page.evaluate((limit) => probe.contrasts(limit), limit);
}

/** The page as it is printed, on paper of `width` px. */
export async function print(page, { width }) {
  await page.evaluate(PROBE);
  await page.setViewportSize({ width, height: 1000 });
  await page.emulateMedia({ media: "print" });
  const told = await page.evaluate(() => {
    const gone = (selector) =>
      [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility()).map(probe.name);
    const folded = [...document.querySelectorAll(".page details")].filter((details) =>
      details.closest(".page").checkVisibility(),
    );
    // a copy button is not for paper
    const inside = (details) =>
      [...details.children].filter((e) => !e.matches("summary, :has(> button)"));
    return {
      folded: folded.length,
      hidden: folded.filter((d) => !inside(d).every((e) => e.checkVisibility())).map(probe.name),
      controls: gone("nav, button, .skip, a[hreflang]"),
      page: document.scrollingElement.scrollWidth,
      cut: probe.cutTexts(),
      broken: probe.brokenWords(),
      ...probe.colours(),
    };
  });
  const pdf = await page.pdf({ format: "A4", preferCSSPageSize: true });
  return { ...told, ...(await place(page)), pdf: pdf.subarray(0, 5).toString() };
}

/** What the page is made of, and the words on the screen. */
export async function anatomy(page, given, seen) {
  await unfold(page);
  const made = await page.evaluate(() => {
    const elements = [...document.querySelectorAll("*")];
    return {
      tags: [...new Set(elements.map((e) => e.localName))],
      attributes: [...new Set(elements.flatMap((e) => e.getAttributeNames()))],
      scripts: document.scripts.length,
      words: document.body.innerText,
      figures: [...document.querySelectorAll("svg text")].map((e) => e.textContent).join("\n"),
    };
  });
  return { ...made, dialogs: seen.dialogs };
}

/** Findings of axe-core about what is on the screen. It is not given what only takes its time: the
 * hidden language, and of each table the rows after the first, which are made alike. */
export async function axe(page) {
  await unfold(page);
  await page.evaluate(() => {
    const hidden = [...document.querySelectorAll(".page")].filter((p) => !p.checkVisibility());
    [...hidden, ...document.querySelectorAll("tbody tr:nth-child(n+5)")].forEach((e) => e.remove());
  });
  await page.evaluate(source("node_modules/axe-core/axe.min.js"));
  return page.evaluate(async () => {
    const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations, passes } = await axe.run(document, { runOnly, resultTypes: ["violations"] });
    return {
      passed: passes.length,
      violations: violations.map(({ id, impact, help, nodes }) => ({
        rule: id,
        impact,
        help,
        where: nodes.map((node) => node.target.join(" ")),
      })),
    };
  });
}

/** Pictures of the whole page, cut to the window's height: FOLDER/NAME-1.png and so on. They overlap
 * by what stays at the upper edge. */
export async function photograph(page, { folder, name, print }) {
  if (print) {
    await unfold(page);
    await page.emulateMedia({ media: "print" });
    await page.pdf({ path: `${folder}/${name}.pdf`, format: "A4", preferCSSPageSize: true });
  }
  const [whole, step] = await page.evaluate(() => [document.body.scrollHeight, innerHeight]);
  const paths = [];
  for (let top = 0; top < whole; top += step - 80) {
    await page.evaluate((top) => scrollTo(0, top), top);
    paths.push(`${folder}/${name}-${paths.length + 1}.png`);
    await page.screenshot({ path: paths.at(-1) });
  }
  return paths;
}
