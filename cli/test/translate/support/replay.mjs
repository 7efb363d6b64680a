/** Replays the wire log of an agent through a translator. Returns the timeline of the web console. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { SubagentSessions } from '../../../src/translate/subagent-sessions.mjs';
import { createTranslator } from '../../../src/translate/translator.mjs';
import { parseQuestions } from '../../../../web/src/content/tool-arguments.ts';
import { buildTimeline } from '../../../../web/src/content/timeline.ts';

/** Updates that arrive within this time after the reply belong to the turn. */
const LATE_MS = 250;

const readLog = (name) =>
  readFileSync(new URL(`../../transcripts/${name}.jsonl`, import.meta.url), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

/** The state of the hub: the messages, each local id once, and the agent state. */
export class Hub {
  messages = [];
  /** @type {Record<string, any>} */
  completed = {};
  requests = [];
  otherRecords = [];
  #localIds = new Set();

  store(records) {
    for (const record of records) {
      if (record.type !== 'message') {
        this.otherRecords.push(record);
        continue;
      }
      assert.ok(!this.#localIds.has(record.localId), `${record.localId} is used twice`);
      this.#localIds.add(record.localId);
      const seq = this.messages.length + 1;
      // As after the transfer over the network.
      this.messages.push({
        id: `m${seq}`,
        seq,
        localId: record.localId,
        content: JSON.parse(JSON.stringify(record.content)),
        createdAt: seq,
      });
    }
  }

  /** The items that a user sees after the turn. @returns {any[]} */
  timeline() {
    return buildTimeline(
      { messages: this.messages, outgoing: [], hasOlder: false, completed: this.completed },
      { active: true, thinking: false },
    );
  }

  recordsOf(type) {
    return this.otherRecords.filter((record) => record.type === type);
  }
}

function decisionOf(result, options) {
  if (result.outcome === undefined)
    return {
      status: result.action === 'accept' ? 'approved' : 'denied',
      answers: Object.fromEntries(
        Object.entries(result.content ?? {})
          .filter(([key]) => !key.endsWith('_custom'))
          .map(([key, value]) => [key, [value]]),
      ),
    };
  if (result.outcome.outcome === 'cancelled') return { status: 'canceled' };
  const { kind } = options.find(({ optionId }) => optionId === result.outcome.optionId);
  return { status: kind.startsWith('allow') ? 'approved' : 'denied' };
}

/**
 * @param {string} name of the log, such as `claude-turn`
 * @param {{decide?: (request: object, decision: object) => object}} [options] `decide`: another decision than in the log
 */
export function replay(name, { decide = (_, decision) => decision } = {}) {
  const subagents = new SubagentSessions();
  const log = readLog(name).flatMap(({ msg, ...others }) => {
    const rewritten = others.dir === '<' ? subagents.rewrite(msg) : msg;
    return rewritten === null ? [] : [{ ...others, msg: rewritten }];
  });
  let ids = 0;
  let time = 0;
  const translator = createTranslator({ agent: name.split('-')[0], newId: () => `id-${(ids += 1)}`, now: () => time });
  const hub = new Hub();
  const calls = new Map();
  const openRequests = new Map();
  const responses = [];
  const deltas = new Map();
  let isReplaying = log.some(({ msg }) => msg.method === 'session/load');
  let pendingStop = null;
  const endTurn = () => {
    if (!pendingStop) return;
    hub.store(translator.endTurn(pendingStop.reason));
    pendingStop = null;
    for (const delta of translator.takeDeltas()) assert.fail(`text after the end of a turn: ${delta.text}`);
  };
  for (const { t, dir, msg } of log) {
    time = t;
    if (pendingStop && t - pendingStop.t > LATE_MS) endTurn();
    if (dir === '>' && msg.method !== undefined) {
      if (msg.id !== undefined) calls.set(msg.id, msg.method);
      if (msg.method === 'session/prompt') isReplaying = false;
    } else if (dir === '>') {
      const request = openRequests.get(msg.id);
      if (!request || !msg.result) continue;
      openRequests.delete(msg.id);
      const decision = decide(request.request, decisionOf(msg.result, request.params.options));
      // After the turn, a request is answered with `cancelled`, regardless of the decision.
      if (request.isEnded) continue;
      responses.push(translator.responseTo(request.request.id, decision));
      hub.completed[request.request.id] = { ...request.request, ...decision };
      hub.store(translator.onPermissionResolved(request.request.id, decision));
    } else if (msg.method === 'session/update') {
      const { update } = msg.params;
      hub.store(isReplaying ? translator.onReplayedUpdate(update) : translator.onUpdate(update));
      for (const { id, text } of translator.takeDeltas()) deltas.set(id, (deltas.get(id) ?? '') + text);
    } else if (msg.method === 'session/request_permission' || msg.method === 'elicitation/create') {
      const isForm = msg.method === 'elicitation/create';
      const { records, request } = isForm ? translator.onElicitation(msg.params) : translator.onPermissionRequest(msg.params);
      hub.store(records);
      hub.requests.push(request);
      openRequests.set(msg.id, { request, params: msg.params });
    } else if (msg.method === undefined && calls.get(msg.id) === 'session/prompt') {
      pendingStop = { t, reason: msg.result.stopReason };
      for (const item of openRequests.values()) item.isEnded = true;
    }
  }
  endTurn();
  return { hub, translator, deltas, responses, timeline: hub.timeline() };
}

/** Describes the items of a timeline for tests, one line per item. */
export const describe = (items) =>
  items.map((item) => {
    if (item.kind === 'tool')
      return `${item.name} ${JSON.stringify(item.input)} -> ${item.state}${item.output === '' ? '' : ` ${JSON.stringify(item.output)}`}${item.permission ? ` (${item.permission.status})` : ''}`;
    if (item.kind === 'plan') return `plan ${item.todos.map(({ content, status }) => `${content}: ${status}`).join(', ')}`;
    if (item.kind === 'event') return `event ${item.name}: ${item.text}`;
    return `${item.kind} ${JSON.stringify(item.text)}`;
  });

export const questionsOf = (request) => parseQuestions(request.arguments).questions;
