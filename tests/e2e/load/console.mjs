/**
 * Measures the web console in Chromium, like a phone on a slow network: loading, scrolling, layout shift and memory. `npm test` does not
 * run this file, because it measures; `npm run console-speed` does.
 */

import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import { parseArgs } from 'node:util';
import zlib from 'node:zlib';
import { eventually, withTimeout } from '../../../scripts/lib/await.mjs';
import { Cli } from '../../../scripts/product/clients/cli.mjs';
import { signInUrl, startBrowser } from '../lib/browser.mjs';
import { startHub } from '../lib/hub.mjs';
import { Lifetime } from '../lib/lifetime.mjs';

const PHONE = { viewport: { width: 390, height: 664 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
const DESK = { viewport: { width: 1280, height: 800 } };

/** The slow 4G network of Lighthouse: 150 ms, 1.6 Mbit/s down, 750 kbit/s up. */
const SLOW_4G = { offline: false, latency: 150, downloadThroughput: 200_000, uploadThroughput: 93_750 };
/** How much slower the processor of a cheap phone is. */
const SLOWDOWN = 4;

const SESSIONS = 200;
const LONG_SESSION = 3_000;
/** The number of messages that are emitted at a time, because the hub bounds the unacknowledged messages of a CLI. */
const BATCH = 200;

/** The frames of scrolling that are recorded at a time. */
const FRAMES_PER_RECORDING = 200;

/** The time limit for loading all messages of the huge session, page by page. */
const LOAD_ALL_MS = 1_800_000;

const NAMESPACE = 'speed';
const ROW = '.session-row';
const MESSAGE = '.message';

const { values: options } = parseArgs({
  options: { runs: { type: 'string', default: '5' }, messages: { type: 'string', default: '20000' } },
});
const RUNS = Number(options.runs);
const HUGE_SESSION = Number(options.messages);

/** Returns the content of the nth message of a conversation: prompts, Markdown, tool calls and their results. */
function messageAt(n) {
  const agent = (data) => ({
    role: 'agent',
    content: { type: 'output', data: { type: 'assistant', message: { role: 'assistant', content: [data] } } },
  });
  if (n % 20 === 0)
    return { role: 'user', content: { type: 'text', text: `Request ${n}: look at the module and fix what the test shows.` } };
  if (n % 4 === 1)
    return agent({ type: 'tool_use', id: `call-${n}`, name: 'Bash', input: { command: `npm test -- --file part-${n}.test.mjs` } });
  if (n % 4 === 2) {
    const output = Array.from({ length: 12 }, (_, line) => `ok ${line} - case ${n}.${line} passed in ${line * 3} ms`).join('\n');
    return agent({ type: 'tool_result', tool_use_id: `call-${n - 1}`, content: output });
  }
  if (n % 12 === 3)
    return agent({
      type: 'text',
      text: `## Step ${n}\n\nThe function returns **early**:\n\n\`\`\`js\nif (count > ${n}) return null;\n\`\`\`\n\n- first\n- second`,
    });
  return agent({
    type: 'text',
    text: `Message ${n}: the cause is a missing check in \`read()\`. I add the check and run the tests again.`,
  });
}

async function fill(cli, sid, count) {
  for (let from = 0; from < count; from += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - from) }, (_, index) => messageAt(from + index));
    await Promise.all(batch.map((message) => cli.emitWithAck('message', { sid, message }, 120_000)));
  }
}

/** Creates the sessions. Returns the ids of the long and the huge session. */
async function seed(hub) {
  const web = hub.web(NAMESPACE);
  const open = (n, name) =>
    web.openSession({ tag: `/code/${n}`, metadata: { path: `/code/project-${n % 12}`, host: 'laptop', name, flavor: 'claude' } });
  for (let n = 0; n < SESSIONS; n += 1) await open(n, `Session ${n}`);
  const [long, huge] = [await open('long', 'Long session'), await open('huge', 'Huge session')];
  const cli = await new Cli(hub, { namespace: NAMESPACE, auth: { sessionId: long.id } }).connect();
  await cli.keepAlive(long.id);
  await cli.keepAlive(huge.id);
  await fill(cli, long.id, LONG_SESSION);
  await fill(cli, huge.id, HUGE_SESSION);
  const timer = setInterval(() => [long, huge].forEach(({ id }) => void cli.keepAlive(id).catch(() => {})), 10_000);
  return { long: long.id, huge: huge.id, stop: () => (clearInterval(timer), cli.close()) };
}

/** Runs in the page before its scripts: records when an element is first shown, and the layout shift. */
function observe(selectors) {
  const record = { usableAt: null, layoutShift: 0, onUsable: () => {} };
  Object.assign(globalThis, { speed: record });
  const check = () => {
    if (record.usableAt !== null || !selectors.some((selector) => document.querySelector(selector))) return;
    requestAnimationFrame(() =>
      setTimeout(() => {
        record.usableAt ??= performance.now();
        record.onUsable();
      }),
    );
  };
  new MutationObserver(check).observe(document, { childList: true, subtree: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const shift = /** @type {any} */ (entry);
      if (!shift.hadRecentInput) record.layoutShift += shift.value;
    }
  }).observe({ type: 'layout-shift', buffered: true });
}

/**
 * Starts a proxy that compresses responses, as the platform does in a deployment, and the local runtime does not. Returns its address.
 */
async function startCompression(t, hub) {
  const target = new URL(hub.url);
  const server = http.createServer((request, response) => {
    const forwarded = http.request(
      { host: target.hostname, port: target.port, method: request.method, path: request.url, headers: request.headers },
      (answer) => {
        const isText = /text\/(html|css|javascript)|json|svg/.test(answer.headers['content-type'] ?? '');
        if (!isText || answer.headers['content-encoding']) {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
          return;
        }
        const { 'content-length': _, ...headers } = answer.headers;
        response.writeHead(answer.statusCode ?? 502, { ...headers, 'content-encoding': 'gzip' });
        answer.pipe(zlib.createGzip()).pipe(response);
      },
    );
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  });
  server.on('upgrade', (request, socket, head) => {
    const upstream = net.connect(Number(target.port), target.hostname, () => {
      const lines = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`);
      upstream.write(`GET ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      upstream.write(head);
      upstream.pipe(socket).pipe(upstream);
    });
    for (const end of [upstream, socket]) end.on('error', () => [upstream, socket].forEach((other) => other.destroy()));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return `http://127.0.0.1:${port}`;
}

async function throttle(page, rate) {
  const client = await page.context().newCDPSession(page);
  await client.send('Network.enable');
  await client.send('Network.emulateNetworkConditions', SLOW_4G);
  await client.send('Emulation.setCPUThrottlingRate', { rate });
}

/** Opens a context that is signed in. */
async function signedIn(browser, hub, device) {
  const context = await browser.newContext({ baseURL: hub.url, locale: 'en-GB', serviceWorkers: 'allow', ...device });
  const page = await context.newPage();
  await page.goto(signInUrl(hub, NAMESPACE));
  await page.locator(ROW).first().waitFor();
  return { context, page };
}

/** Waits until the view is usable. Not with a function of Playwright, whose scripts would take processor time of the page meanwhile. */
async function waitUntilUsable(page) {
  const client = await page.context().newCDPSession(page);
  const expression = 'new Promise((resolve) => (speed.usableAt === null ? (speed.onUsable = () => resolve()) : resolve()))';
  const { exceptionDetails } = await client.send('Runtime.evaluate', { awaitPromise: true, expression });
  if (exceptionDetails) throw new Error(exceptionDetails.text);
  await client.detach();
}

/**
 * Loads a view on a phone. Returns the milliseconds until it is usable, the processor time of the page's main thread until then, and the
 * layout shift. `warm`: a second visit. `rate`: how much slower the processor is.
 */
async function measureLoad(browser, hub, { view, selector, warm, rate }) {
  const { context, page: first } = await signedIn(browser, hub, PHONE);
  if (warm) {
    await first.evaluate(() => navigator.serviceWorker.ready);
    await first.goto(view);
    await first.locator(selector).first().waitFor();
    // The service worker caches the files of the page after its activation.
    await eventually(() => first.evaluate(async () => (await caches.keys()).length > 0), 'the cache of the service worker');
  }
  await first.close();
  if (!warm) {
    // A cold start has a token, and neither files nor stored data.
    const cleaner = await context.newPage();
    const client = await context.newCDPSession(cleaner);
    await client.send('Network.clearBrowserCache');
    await client.send('Storage.clearDataForOrigin', { origin: hub.url, storageTypes: 'service_workers,cache_storage,indexeddb' });
    await cleaner.close();
  }
  const page = await context.newPage();
  await page.addInitScript(observe, [selector]);
  await throttle(page, rate);
  const stopRecording = await recordTasks(browser, page);
  const requests = [];
  page.on('request', (request) => requests.push(new URL(request.url()).pathname));
  await page.goto(view, { waitUntil: 'commit' });
  await withTimeout(waitUntilUsable(page), 'the view to be usable', 60_000);
  const processorMs = (await stopRecording()).reduce((sum, ms) => sum + ms, 0);
  // Later shifts count, too.
  await page.waitForLoadState('networkidle').catch(() => {});
  const { usableAt, layoutShift } = await page.evaluate(() => /** @type {any} */ (globalThis).speed);
  await context.close();
  return { usableAt, processorMs, layoutShift, requests: requests.filter((name) => name.startsWith('/api/')) };
}

/** Scrolls up until all messages are loaded. Returns the element that scrolls. */
async function loadAll(page) {
  const log = page.getByRole('log', { name: 'Conversation' });
  await log.waitFor();
  const loading = log.evaluate(async (element) => {
    while (element.querySelector('.messages-start')?.textContent !== 'Start of the conversation') {
      element.scrollTop = 0;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });
  await withTimeout(loading, 'the oldest message', LOAD_ALL_MS);
  return log;
}

const START_MARK = 'start of the recording';
const END_MARK = 'end of the recording';

/**
 * Records the tasks of a page's main thread until the returned function is called, which returns the processor time of each task in
 * milliseconds. Unlike the duration, this time depends little on other programs. `fromMark`: leaves out the start of the recording itself.
 */
async function recordTasks(browser, page, { fromMark = false } = {}) {
  const client = await browser.newBrowserCDPSession();
  const tasks = [];
  const marks = new Map();
  const threadOf = ({ pid, tid }) => `${pid} ${tid}`;
  client.on('Tracing.dataCollected', ({ value }) => {
    tasks.push(...value.filter(({ name, ph }) => name === 'RunTask' && ph === 'X'));
    for (const event of value) if ([START_MARK, END_MARK].includes(event.name)) marks.set(event.name, event);
  });
  const mark = (name) => page.evaluate((text) => void performance.mark(text), name);
  const traceConfig = { includedCategories: ['disabled-by-default-devtools.timeline', 'blink.user_timing'] };
  await client.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig });
  if (fromMark) await mark(START_MARK);
  return async () => {
    await mark(END_MARK);
    const complete = new Promise((resolve) => client.once('Tracing.tracingComplete', resolve));
    await client.send('Tracing.end');
    await complete;
    await client.detach();
    // The browser has pages of its own.
    const { [END_MARK]: end, [START_MARK]: start } = Object.fromEntries(marks);
    return tasks
      .filter((task) => threadOf(task) === threadOf(end) && task.ts > (start?.ts ?? 0) && task.ts < end.ts)
      .map(({ tdur = 0 }) => tdur / 1000);
  };
}

/** Runs in the page: scrolls by half a screen with each frame, down or up. */
async function scrollOn(element, { direction, maxFrames }) {
  for (let frames = 0; frames < maxFrames; frames += 1) {
    const before = element.scrollTop;
    element.scrollTop += (direction * element.clientHeight) / 2;
    await new Promise(requestAnimationFrame);
    if (element.scrollTop === before) return { frames, isAtEnd: true };
  }
  return { frames: maxFrames, isAtEnd: false };
}

/**
 * Runs in the page: scrolls up by a quarter of a screen with each frame. Returns the longest distance in pixels between a visible row and
 * the place to which the scrolling should have moved the row. (The layout shift of the browser also counts a row that stays in place
 * while the list measures the rows above it, and corrects the scroll position.)
 */
async function longestJump(element) {
  const afterFrame = () => {
    const { port1, port2 } = new MessageChannel();
    return new Promise((resolve) => {
      port1.onmessage = resolve;
      requestAnimationFrame(() => port2.postMessage(null));
    });
  };
  const topsOfRows = () => {
    const rows = [...element.querySelectorAll('.message')];
    return new Map(rows.map((row) => [row.dataset.key, row.getBoundingClientRect().top]));
  };
  element.scrollTop = element.scrollHeight;
  await afterFrame();
  let longest = 0;
  for (;;) {
    const { top, bottom } = element.getBoundingClientRect();
    const before = [...topsOfRows()].filter(([, rowTop]) => rowTop >= top && rowTop < bottom);
    const start = element.scrollTop;
    element.scrollTop -= Math.round(element.clientHeight / 4);
    const step = element.scrollTop - start;
    if (step === 0) return longest;
    await afterFrame();
    const after = topsOfRows();
    for (const [key, rowTop] of before) if (after.has(key)) longest = Math.max(longest, Math.abs(after.get(key) - (rowTop - step)));
  }
}

/**
 * Scrolls through all messages of the long session. Returns the processor times of the tasks in milliseconds, the longest first, the
 * number of frames, and the longest jump of a row in pixels.
 */
async function measureScrolling(browser, hub, id, device) {
  const { context, page: first } = await signedIn(browser, hub, device);
  await first.close();
  const page = await context.newPage();
  await page.goto(`/sessions/${id}`);
  // An element, because the search for a locator is a task of the page, too.
  const log = await (await loadAll(page)).elementHandle();
  const tasks = [];
  let frames = 0;
  // In parts, because the browser sends the recording of all frames too slowly.
  for (const direction of [1, -1]) {
    for (let isAtEnd = false; !isAtEnd; ) {
      const stopRecording = await recordTasks(browser, page, { fromMark: true });
      const part = await log.evaluate(scrollOn, { direction, maxFrames: FRAMES_PER_RECORDING });
      tasks.push(...(await stopRecording()));
      frames += part.frames;
      isAtEnd = part.isAtEnd;
    }
  }
  // Loaded again, because the rows have been measured.
  await page.reload();
  const jump = await (await loadAll(page)).evaluate(longestJump);
  await context.close();
  return { tasks: tasks.sort((a, b) => b - a), frames, jump };
}

/** Returns the used heap in bytes with all messages of a session loaded. */
async function measureHeap(browser, hub, id) {
  const { context, page } = await signedIn(browser, hub, PHONE);
  await page.goto(`/sessions/${id}`);
  await page.getByRole('log', { name: 'Conversation' }).waitFor();
  await loadAll(page);
  const client = await context.newCDPSession(page);
  await client.send('HeapProfiler.collectGarbage');
  const { usedSize } = await client.send('Runtime.getHeapUsage');
  await context.close();
  return usedSize;
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

const seconds = (ms) => `${(ms / 1000).toFixed(2)} s`;

const suite = new Lifetime();
try {
  const browser = await startBrowser(suite, { whole: true });
  const hub = await startHub(suite, { console: true });
  console.error(`Storing ${LONG_SESSION + HUGE_SESSION} messages ...`);
  const sessions = await seed(hub);
  const served = { url: await startCompression(suite, hub), token: (namespace) => hub.token(namespace) };
  suite.after(sessions.stop);

  const report = (work, value, goal) => {
    console.log(`| ${work} | ${value} | ${goal} |`);
  };
  console.log('| Work | Measured | Goal |\n|---|---|---|');
  report('load average at the start', `${os.loadavg()[0]?.toFixed(1)} with ${os.availableParallelism()} processors`, '');
  const views = [
    { name: 'list of 202 sessions', view: '/', selector: ROW, goals: ['2.0 s', '0.8 s'] },
    { name: 'session of 3,000 messages', view: `/sessions/${sessions.long}`, selector: MESSAGE, goals: ['2.0 s', '0.8 s'] },
  ];
  for (const { name, view, selector, goals } of views) {
    for (const [index, kind] of ['cold', 'warm'].entries()) {
      const measure = (rate) => measureLoad(browser, served, { view, selector, warm: kind === 'warm', rate });
      const loads = [];
      for (let run = 0; run < RUNS; run += 1) loads.push(await measure(SLOWDOWN));
      report(`${name}, ${kind}: usable after`, seconds(median(loads.map(({ usableAt }) => usableAt))), goals[index]);
      // Without the emulation of a slow processor, whose waits would count as processor time.
      const processorTimes = [];
      for (let run = 0; run < RUNS; run += 1) processorTimes.push((await measure(1)).processorMs);
      report(`${name}, ${kind}: processor time until then, ${SLOWDOWN} times`, seconds(SLOWDOWN * median(processorTimes)), '');
      report(`${name}, ${kind}: layout shift`, Math.max(...loads.map(({ layoutShift }) => layoutShift)).toFixed(3), '0');
      report(
        `${name}, ${kind}: requests`,
        loads[0].requests.map((request) => request.replace(/[0-9a-f-]{36}/, ':id')).join(' '),
        'each once',
      );
    }
  }
  for (const [name, device, rate, goalMs] of /** @type {const} */ ([
    ['phone, processor 4 times slower', PHONE, SLOWDOWN, 100],
    ['desk', DESK, 1, 50],
  ])) {
    const { tasks, frames, jump } = await measureScrolling(browser, served, sessions.long, device);
    const times = tasks.map((ms) => ms * rate);
    report(
      `scrolling 3,000 messages, ${name}: longest task, processor time`,
      `${Math.round(times[0] ?? 0)} ms (${times.filter((ms) => ms > goalMs).length} of ${frames} frames above the goal)`,
      `${goalMs} ms`,
    );
    report(`scrolling 3,000 messages, ${name}: longest jump of a row`, `${jump.toFixed(1)} px`, '0 px');
  }
  const heap = await measureHeap(browser, served, sessions.huge);
  report(`${HUGE_SESSION} messages loaded: heap`, `${(heap / 1e6).toFixed(1)} MB`, '40 MB');
  report('load average at the end', os.loadavg()[0]?.toFixed(1), '');
} finally {
  await suite.end();
}
