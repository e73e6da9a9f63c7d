/** What a page asks for and complains of, from before it opens: growing lists. */
export async function watch(page) {
  const seen = { requests: [], complaints: [], dialogs: [] };
  page.on("request", (request) => seen.requests.push(request.url().split("#")[0]));
  page.on("pageerror", (error) => seen.complaints.push(`error: ${error.message}`));
  page.on("dialog", async (dialog) => {
    seen.dialogs.push(dialog.message());
    await dialog.dismiss();
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) {
      seen.complaints.push(`${message.type()}: ${message.text()}`);
    }
  });
  await page.addInitScript(() =>
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy violation: ${event.effectiveDirective} ${event.blockedURI}`),
    ),
  );
  return seen;
}
