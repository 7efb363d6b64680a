// Log lines in JSON (docs/MONITORING.md "Logs"). Until the settings are known, only lines of the level `error` are written.

const LEVELS = ['debug', 'info', 'warn', 'error'];

const settings = { minLevel: LEVELS.indexOf('error'), samplesPerMillion: 0 };

/**
 * @param {string} level lines of lower levels are not written
 * @param {number} samplesPerMillion how many of a million successful requests get a line
 */
export function configureLog(level, samplesPerMillion) {
  settings.minLevel = LEVELS.indexOf(level);
  settings.samplesPerMillion = samplesPerMillion;
}

/** Whether a successful request gets a line. */
export const isSampled = () => Math.random() * 1_000_000 < settings.samplesPerMillion;

/** The most lines of a kind in each minute, because unauthenticated clients can cause as many as they like. */
const MAX_LINES_PER_MINUTE = 60;

/** The lines of each limited kind in the current minute. @type {Map<string, {minute: number, count: number}>} */
const limits = new Map();

/**
 * Whether another line of this kind is written in this minute. The first line of a later minute follows one that counts the omitted lines.
 * @param {string} kind
 */
export function isWithinLimit(kind) {
  const minute = Math.floor(Date.now() / 60_000);
  let limit = limits.get(kind);
  if (limit?.minute !== minute) {
    const omitted = (limit?.count ?? 0) - MAX_LINES_PER_MINUTE;
    if (omitted > 0) logLine('warn', 'lines-omitted', `,"kind":"${kind}","count":${omitted}`);
    limit = { minute, count: 0 };
    limits.set(kind, limit);
  }
  limit.count += 1;
  return limit.count <= MAX_LINES_PER_MINUTE;
}

/** @param {string} level */
export const isLogged = (level) => LEVELS.indexOf(level) >= settings.minLevel;

/**
 * Writes a line, unless its level is too low.
 * @param {string} level
 * @param {string} event
 * @param {string} members JSON text of further members without braces; begins with a comma unless it is empty
 */
export function logLine(level, event, members) {
  if (!isLogged(level) || (event === 'connect-refused' && !isWithinLimit(event))) return;
  const line = `{"time":"${new Date().toISOString()}","level":"${level}","event":"${event}"${members}}`;
  if (level === 'error') console.error(line);
  else if (level === 'warn') console.warn(line);
  else console.log(line);
}

/** Writes a line about an error of the platform. @param {string} event @param {unknown} error */
export function logError(event, error) {
  logLine('error', event, `,"error":${JSON.stringify(String(error).slice(0, 300))}`);
}
