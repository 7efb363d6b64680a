/** A session whose updates come from a test: a translator, the state of the hub, and a clock. */

import { createTranslator } from '../../../src/translate/translator.mjs';
import { describe, Hub } from './replay.mjs';

const OPTIONS = [
  { optionId: 'always', kind: 'allow_always' },
  { optionId: 'once', kind: 'allow_once' },
  { optionId: 'reject', kind: 'reject_once' },
];

/** @param {{agent?: string, usedIds?: string[]}} [options] */
export function createSession({ agent = 'any', ...options } = {}) {
  let ids = 0;
  const clock = { ms: 0 };
  const hub = new Hub();
  const translator = createTranslator({ agent, newId: () => `id-${(ids += 1)}`, now: () => clock.ms, ...options });
  return {
    clock,
    hub,
    translator,
    update: (update) => hub.store(translator.onUpdate(update)),
    say: (text, fields) =>
      hub.store(translator.onUpdate({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text }, ...fields })),
    call: (toolCallId, fields) => hub.store(translator.onUpdate({ sessionUpdate: 'tool_call', toolCallId, ...fields })),
    callUpdate: (toolCallId, fields) => hub.store(translator.onUpdate({ sessionUpdate: 'tool_call_update', toolCallId, ...fields })),
    ask: (toolCall, params) => {
      const { records, request } = translator.onPermissionRequest({ toolCall, options: OPTIONS, ...params });
      hub.store(records);
      return request;
    },
    form: (params) => {
      const { records, request } = translator.onElicitation(params);
      hub.store(records);
      return request;
    },
    /** Returns the response to the agent. */
    decide: ({ id, ...request }, decision) => {
      const response = translator.responseTo(id, decision);
      hub.completed[id] = { ...request, ...decision };
      hub.store(translator.onPermissionResolved(id, decision));
      return response;
    },
    endTurn: (stopReason = 'end_turn') => hub.store(translator.endTurn(stopReason)),
    shown: () => describe(hub.timeline()),
  };
}

export const textContent = (text) => [{ type: 'content', content: { type: 'text', text } }];
