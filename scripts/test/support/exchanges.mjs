// The exchanges of docs/openapi.yaml and the protocol's pages (docs/PROTOCOL.md, "How to read an exchange"). Tests run them against the hub.

import { readFileSync } from 'node:fs';
import { inProject } from '../../lib/paths.mjs';
import { OPERATIONS, withoutGeneratedParts } from './reference.mjs';

/** The pages of the protocol. */
export const PAGES = ['PROTOCOL.md', 'PROTOCOL-WEB.md', 'PROTOCOL-EVENTS.md', 'PROTOCOL-PUSH.md', 'PROTOCOL-DEVICES.md', 'PROTOCOL-CLI.md'];

/** As a value in a pattern, it matches any value. As the name of a field, it matches any number of further fields. */
const ANY = '\u0000';

/** Returns the code blocks of a language on all pages. @param {string} language @returns {{page: string, text: string}[]} */
function blocksOf(language) {
  const blocks = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm');
  return PAGES.flatMap((page) => {
    const text = withoutGeneratedParts(readFileSync(inProject('docs', page), 'utf8'));
    return [...text.matchAll(blocks)].map(([, block]) => ({ page, text: block }));
  });
}

/**
 * Reads the requests with their responses, from docs/openapi.yaml and the blocks `http` of the pages.
 * @returns {{page: string, method: string, path: string, body: string | undefined, status: number, response: string}[]}
 */
export function readRequests() {
  const described = OPERATIONS.map(({ operation }) => ({ page: 'openapi.yaml', text: operation['x-exchange'] }));
  return [...described, ...blocksOf('http')].flatMap(({ page, text }) => {
    const parts = text.trim().split('\n\n');
    return parts.flatMap((part, index) => {
      if (index % 2 === 1) return [];
      const [, method, path, body] = /^([A-Z]+) (\S+)(?:\n([^]*))?$/.exec(part) ?? fail(page, part);
      const [, status, response] = /^HTTP\/1\.1 (\d{3})\n([^]*)$/.exec(parts[index + 1] ?? '') ?? fail(page, part);
      return [{ page, method, path, body, status: Number(status), response }];
    });
  });
}

/** Returns the lines of a block. An indented line continues the line before. @param {string} text */
const linesOf = (text) =>
  text
    .trim()
    .replace(/\n {2,}/g, ' ')
    .split('\n');

/**
 * Reads the conversations of a CLI with the hub, from the blocks `socket`. A line without a name is an acknowledgement.
 * @returns {{page: string, frames: {from: 'cli' | 'hub', name: string | undefined, payload: string}[]}[]}
 */
export function readConversations() {
  return blocksOf('socket').map(({ page, text }) => {
    const frames = linesOf(text).map((line) => {
      const [, direction, name, payload] = /^([<>]) (?:([a-z-]+)(?= |$))? ?(.*)$/.exec(line) ?? fail(page, line);
      return { from: /** @type {'cli' | 'hub'} */ (direction === '>' ? 'cli' : 'hub'), name, payload };
    });
    return { page, frames };
  });
}

/** Reads the frames of a connection, from the blocks `frames`. @returns {{from: 'cli' | 'hub', frame: string}[]} */
export function readFrames() {
  return blocksOf('frames').flatMap(({ page, text }) =>
    linesOf(text).map((line) => {
      const [, direction, frame] = /^([<>]) (.+)$/.exec(line) ?? fail(page, line);
      return { from: direction === '>' ? 'cli' : 'hub', frame };
    }),
  );
}

/** Reads the events for web clients, from the blocks `events`. Each line is an event. @returns {{page: string, text: string}[]} */
export function readEvents() {
  return blocksOf('events').flatMap(({ page, text }) => linesOf(text).map((line) => ({ page, text: line })));
}

/** @returns {never} */
function fail(page, text) {
  throw new Error(`docs/${page} has an exchange without the documented form: ${text}`);
}

/** Parses JSON in which `…` may be a value, the last field or the last entry. @param {string} text */
export function parsePattern(text) {
  const quoted = text.replace(/"(?:[^"\\]|\\.)*"|…/g, (token) => (token === '…' ? ANY : token));
  const marker = JSON.stringify(ANY);
  const named = quoted.replaceAll(new RegExp(`([{,]\\s*)${ANY}(?=\\s*\\})`, 'g'), `$1${marker}:0`);
  return JSON.parse(named.replaceAll(ANY, marker));
}

/** Replaces each `<name>` with its value in this test run. @param {string} text @param {Record<string, string>} values */
export function fillIn(text, values) {
  return text.replace(/<([a-z][\w-]*)>/g, (_, name) => {
    if (values[name] === undefined) throw new Error(`This test run has no value for <${name}>.`);
    return values[name];
  });
}

/** Whether a number is a time in Unix milliseconds. @param {unknown} value */
const isTime = (value) => typeof value === 'number' && value >= 1e12 && value < 1e13;

/**
 * Describes the differences between a pattern and an actual value. Each description begins with the place of the difference.
 * @param {any} pattern from {@link parsePattern}, with values in place of `<name>`
 * @param {any} actual
 * @returns {string[]}
 */
export function differences(pattern, actual, place = 'the answer') {
  const describeDifference = () => [`${place} is ${JSON.stringify(actual)}, not ${JSON.stringify(pattern)}`];
  if (pattern === ANY) return actual === undefined ? describeDifference() : [];
  if (typeof pattern === 'string' && typeof actual === 'string') {
    const parts = pattern.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    return new RegExp(`^${parts.join('[^]+')}$`).test(actual) ? [] : describeDifference();
  }
  if (isTime(pattern)) return isTime(actual) ? [] : describeDifference();
  if (typeof pattern !== 'object' || pattern === null) return pattern === actual ? [] : describeDifference();
  if (typeof actual !== 'object' || actual === null || Array.isArray(actual) !== Array.isArray(pattern)) return describeDifference();
  if (Array.isArray(pattern)) {
    const isOpen = pattern.at(-1) === ANY;
    const entries = isOpen ? pattern.slice(0, -1) : pattern;
    if (isOpen ? actual.length < entries.length : actual.length !== entries.length) return describeDifference();
    return entries.flatMap((entry, index) => differences(entry, actual[index], `${place}[${index}]`));
  }
  const { [ANY]: moreFields, ...fields } = pattern;
  const unexpectedFields =
    moreFields === undefined
      ? Object.keys(actual)
          .filter((name) => !(name in fields))
          .map((name) => `${place}.${name} is not in the page: ${JSON.stringify(actual[name])}`)
      : [];
  return [...unexpectedFields, ...Object.entries(fields).flatMap(([name, value]) => differences(value, actual[name], `${place}.${name}`))];
}
