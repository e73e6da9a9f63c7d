// Evaluated inside the page: defines `probe`, questions about what is drawn on the screen.
globalThis.probe = (() => {
  const TOLERANCE = 1; // px: rounding of the layout
  const LEADING = 4; // px: a line of text is taller than its letters

  /** The element as one would look for it: nearest id above, then tag and classes. */
  function name(element) {
    const own = element.localName + [...element.classList].map((c) => `.${c}`).join("");
    if (element.id) return `${element.localName}#${element.id}`;
    const above = element.parentElement?.closest("[id]");
    return above ? `#${above.id} ${own}` : own;
  }

  const isSeen = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  /** Every piece of text that is drawn: its element and node, its words, its box. */
  function* texts() {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || !isSeen(element)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const box = range.getBoundingClientRect();
      if (box.width && box.height) yield { element, node, words: node.data.trim().slice(0, 60), box };
    }
  }

  /** How a box inside `element` is cut off: by an ancestor or at the edge of the window; "" if not. */
  function cutOff(element, box) {
    let { left, right, top, bottom } = box;
    for (let around = element; around !== document.body; around = around.parentElement) {
      const { overflowX: x, overflowY: y, display } = getComputedStyle(around);
      if ((x === "visible" && y === "visible") || display === "inline") continue;
      const edge = around.getBoundingClientRect();
      if (x === "auto" || x === "scroll") {
        // can be scrolled to, unless it lies before the start; the box itself must be inside
        if (left < edge.left - around.scrollLeft - TOLERANCE) return `before ${name(around)}`;
        [left, right] = [edge.left, edge.right];
      } else if (left < edge.left - TOLERANCE || right > edge.right + TOLERANCE) {
        return `at the side of ${name(around)}`;
      }
      if (y === "hidden" || y === "clip") {
        if (top < edge.top - LEADING || bottom > edge.bottom + LEADING) return `by ${name(around)}`;
      }
    }
    const outside = left < -TOLERANCE || right > innerWidth + TOLERANCE;
    return outside ? `window: ${Math.round(left)} to ${Math.round(right)} px` : "";
  }

  /** Texts that cannot be read whole, with what cuts them off. */
  function cutTexts() {
    const found = [];
    for (const { element, words, box } of texts()) {
      if (element.closest(".skip")) continue; // comes into sight with the focus
      const by = cutOff(element, box);
      if (by) found.push(`${name(element)} "${words}": ${by}`);
    }
    return found;
  }

  /** Short words and numbers that are broken over two lines. */
  function brokenWords() {
    const found = [];
    for (const { element, node, words } of texts()) {
      for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
        if (word.length > 11 || /[-\u2010/]/.test(word)) continue;
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) found.push(`${name(element)} "${words}": ${word}`);
      }
    }
    return found;
  }

  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();

  /** Red, green, blue (0 to 255) and alpha (0 to 1) of a CSS colour. */
  function channels(colour) {
    if (!known.has(colour)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = colour;
      pixel.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  }

  /** Relative luminance of WCAG, 0 to 1. */
  function luminance(rgb) {
    const [red, green, blue] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  const over = (top, alpha, under) => under.map((value, i) => alpha * top[i] + (1 - alpha) * value);

  function opacity(element) {
    let product = 1;
    for (let e = element; e; e = e.parentElement) product *= getComputedStyle(e).opacity;
    return product;
  }

  /** What an element paints behind its contents: colour and alpha. */
  function paint(element) {
    const style = getComputedStyle(element);
    if (!(element instanceof SVGElement)) return channels(style.backgroundColor);
    if (!(element instanceof SVGGeometryElement) || style.fill === "none") return [0, 0, 0, 0];
    const [red, green, blue, alpha] = channels(style.fill);
    return [red, green, blue, alpha * style.fillOpacity * opacity(element)];
  }

  /** The colour behind the middle of a text: everything painted there below it. */
  function behind(element, box) {
    const stack = document.elementsFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    const layers = [];
    for (const below of stack.slice(Math.max(stack.indexOf(element), 0))) {
      const layer = paint(below);
      layers.unshift(layer);
      if (layer[3] === 1) break;
    }
    return layers.reduce((under, layer) => over(layer, layer[3], under), [255, 255, 255]);
  }

  /** Contrast of every text with what is behind it: counts, and those below `limit`. */
  function contrasts(limit) {
    const told = { html: 0, svg: 0, low: [] };
    for (const { element, words } of texts()) {
      const inFigure = element instanceof SVGElement;
      const style = getComputedStyle(element);
      const colour = inFigure ? style.fill : style.color;
      if (colour === "none" || element.closest(".skip")) continue;
      let box = element.getBoundingClientRect();
      if (box.top < 0 || box.bottom > innerHeight || box.left < 0 || box.right > innerWidth) {
        element.scrollIntoView({ block: "center", inline: "center" });
        box = element.getBoundingClientRect();
      }
      const ground = behind(element, box);
      const [red, green, blue, alpha] = channels(colour);
      const own = alpha * (inFigure ? style.fillOpacity : 1) * opacity(element);
      const ink = over([red, green, blue], own, ground);
      const [dark, light] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
      const ratio = (light + 0.05) / (dark + 0.05);
      told[inFigure ? "svg" : "html"] += 1;
      if (ratio < limit) {
        const colours = [ink, ground].map((rgb) => rgb.map(Math.round).join(" ")).join(" on ");
        told.low.push(`${name(element)} "${words}": ${ratio.toFixed(2)} (${colours})`);
      }
    }
    return told;
  }

  /** Luminances of the page itself, and the colours of the texts in figures. */
  function colours() {
    const { color, backgroundColor } = getComputedStyle(document.body);
    const fills = [...document.querySelectorAll("figure svg text")]
      .filter(isSeen)
      .map((text) => getComputedStyle(text).fill);
    return {
      text: luminance(channels(color)),
      ground: luminance(channels(backgroundColor)),
      figures: [...new Set(fills)],
    };
  }

  return { name, isSeen, texts, cutTexts, brokenWords, contrasts, colours };
})();
