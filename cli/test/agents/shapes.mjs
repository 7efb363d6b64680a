/** The shapes of the messages that an agent sends. */

/** The calls whose answers are part of a turn. */
const TURN = ['session/load', 'session/prompt'];

/** Returns the paths of all fields of a value, each once. */
function fieldsOf(value, at = '') {
  if (typeof value !== 'object' || value === null) return [at];
  if (Array.isArray(value)) return [...new Set(value.flatMap((item) => fieldsOf(item, `${at}[]`)))];
  return Object.entries(value).flatMap(([name, part]) => fieldsOf(part, at === '' ? name : `${at}.${name}`));
}

/**
 * Returns the shapes of a log, in order; a shape that follows itself only once. Leaves out the messages of the bridge, and answers that
 * open a session.
 * @param {string} log
 */
export function shapesOf(log) {
  const calls = new Map();
  const shapes = log
    .split('\n')
    .filter(Boolean)
    .flatMap((line) => {
      const { dir, msg } = JSON.parse(line);
      if (dir === '>') {
        if (msg.method) calls.set(msg.id, msg.method);
        return [];
      }
      const method = msg.method ?? calls.get(msg.id);
      if (!msg.method && !TURN.includes(method)) return [];
      const { sessionUpdate, ...fields } = msg.params?.update ?? msg.params ?? msg.result ?? msg.error ?? {};
      const status = fields.status ?? fields.stopReason ?? '';
      return [
        `${[msg.method ? method : `answer to ${method}`, sessionUpdate, status].filter(Boolean).join(' ')}: ${fieldsOf(fields).sort()}`,
      ];
    });
  return shapes.filter((shape, at) => shape !== shapes[at - 1]);
}
