/**
 * The text of a notification, for the service worker and for the toasts of the page. Without DOM, because the service worker imports
 * this module.
 */

import { isString } from '../api/validate.ts';
import { cutText } from './cut-text.ts';
import { escapeText } from './escape-invisible.ts';
import { requestTitle } from './request-title.ts';
import { isShellCall, parseArguments } from './tool-arguments.ts';

/** The data of a notification that the hub sends. A hub of an earlier version sends only `title`, `body` and `url`. */
export interface NotificationDetails {
  url?: string;
  /** The title of the session. */
  session?: string;
  agent?: string;
  tool?: string;
  /** The argument that describes the request best. */
  detail?: string;
  /** The whole request. */
  request?: { tool: string; arguments?: unknown };
}

export interface NotificationText {
  title: string;
  body: string;
  /** Whether the text shows the whole request, so that a person can approve it without seeing more. */
  isWhole: boolean;
}

const MAX_SESSION_LENGTH = 40;
const MAX_BODY_LENGTH = 600;
/** The most characters and lines that platforms show of a notification without opening it. */
const MAX_WHOLE_LENGTH = 200;
const MAX_WHOLE_LINES = 4;
/** Whitespace that could move the rest of a text out of view. */
const WIDE_SPACE = /[^\S\n]{4}|\n\s*\n/;

const oneLine = (text: string, maxLength: number) => cutText(escapeText(text.replace(/\s+/g, ' ').trim()), maxLength);

/** Returns the text of a notification. `fallback` is the text of a hub of an earlier version. */
export function notificationText(details: NotificationDetails, fallback: { title: string; body: string }): NotificationText {
  const { session, agent, tool, detail } = details;
  const inSession = isString(session) && session !== '' ? ` · ${oneLine(session, MAX_SESSION_LENGTH)}` : '';
  if (!isString(tool)) {
    const isReady = isString(agent) && inSession !== '';
    return {
      title: isReady ? `${oneLine(agent, MAX_SESSION_LENGTH)} is waiting${inSession}` : escapeText(fallback.title),
      body: isReady ? 'It has finished, and waits for your next message.' : escapeText(fallback.body),
      isWhole: false,
    };
  }
  if (!details.request) {
    const field = isShellCall(tool, { command: '' }) ? 'command' : 'file_path';
    const title = `${requestTitle(tool, isString(detail) ? { [field]: detail } : {})}${inSession}`;
    return { title, body: cutText(escapeText(isString(detail) ? detail : fallback.body), MAX_BODY_LENGTH), isWhole: false };
  }
  const input = details.request.arguments;
  const { lines, isSingle } = describeCall(tool, input);
  const body = escapeText(lines.join('\n'));
  const isShort = body.length <= MAX_WHOLE_LENGTH && body.split('\n').length <= MAX_WHOLE_LINES && !WIDE_SPACE.test(body);
  return {
    title: `${requestTitle(tool, input)}${inSession}`,
    body: cutText(body, MAX_BODY_LENGTH),
    isWhole: isSingle && isShort && body.trim() !== '',
  };
}

/** Returns all of a call as lines, and whether the call runs at most one command or changes at most one file. */
function describeCall(tool: string, input: unknown): { lines: string[]; isSingle: boolean } {
  const { command, edits, otherFields } = parseArguments(input);
  const isShell = isShellCall(tool, input);
  const lines = [
    ...(command === undefined ? [] : [command]),
    ...edits.flatMap(({ path, before, after }) => [path, ...(before === '' ? [] : [`- ${before}`]), `+ ${after}`]),
    ...otherFields.map(({ name, text }) => (name === '' ? text : `${name}: ${text}`)),
    ...(isShell ? [] : [`Tool: ${tool}`]),
  ];
  return { lines, isSingle: edits.length + (command === undefined ? 0 : 1) <= 1 };
}
