/** The schemas of the Agent Client Protocol that the SDK contains, and the differences between a schema and recorded messages. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Ajv from 'ajv/dist/2020.js';

/**
 * A recorded message. `dir`: `>` from the bridge to the agent, `<` from the agent to the bridge.
 * @typedef {{dir: '>' | '<', msg: {id?: unknown, method?: string, params?: any, result?: any, error?: object}}} Recorded
 */

/**
 * Loads a schema with its unstable methods, which include `session/fork`.
 * @param {number} version of the protocol
 * @returns {AcpSchema | null} null if the installed SDK has no such schema
 */
export function loadSchema(version) {
  try {
    const file = fileURLToPath(import.meta.resolve(`@agentclientprotocol/sdk/schema/v${version}/schema.unstable.json`));
    return new AcpSchema(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    if (!['ENOENT', 'ERR_PACKAGE_PATH_NOT_EXPORTED', 'MODULE_NOT_FOUND', 'ERR_MODULE_NOT_FOUND'].includes(error.code)) throw error;
    return null;
  }
}

export class AcpSchema {
  #ajv;
  /** The names of the definitions, by method and part of the message. @type {Map<string, string>} */
  #definitions = new Map();
  /** The places of the kinds of `session/update`, by kind. @type {Map<string, string>} */
  #updates = new Map();

  constructor(schema) {
    // The formats and keywords of the schema's generator are unknown to Ajv.
    this.#ajv = new /** @type {any} */ (Ajv)({ strict: false, validateFormats: false, logger: false });
    this.#ajv.addSchema(schema, 'acp');
    for (const [name, { 'x-method': method }] of Object.entries(schema.$defs)) {
      if (method) this.#definitions.set(`${method} ${name.endsWith('Response') ? 'result' : 'params'}`, `/$defs/${name}`);
    }
    const { anyOf = [], oneOf = [] } = schema.$defs.SessionUpdate;
    const list = anyOf.length > 0 ? 'anyOf' : 'oneOf';
    for (const [i, variant] of [...anyOf, ...oneOf].entries()) {
      const kind = variant.properties?.sessionUpdate?.const;
      if (kind !== undefined) this.#updates.set(kind, `/$defs/SessionUpdate/${list}/${i}`);
    }
  }

  /**
   * Returns what the schema does not allow in a log: each difference once, sorted. Methods that begin with `_` are extensions, which
   * every version allows.
   * @param {Recorded[]} log
   */
  differences(log) {
    const methods = { '>': new Map(), '<': new Map() };
    const found = new Set();
    for (const { dir, msg } of log) {
      const isResult = msg.method === undefined;
      const method = isResult ? methods[dir === '>' ? '<' : '>'].get(msg.id) : msg.method;
      if (!isResult && msg.id !== undefined) methods[dir].set(msg.id, method);
      if (msg.error || method === undefined || method.startsWith('_')) continue;
      const problem = this.#problemOf(method, msg, isResult ? 'result' : 'params');
      if (problem) found.add(`${dir} ${problem}`);
    }
    return [...found].sort();
  }

  /** @param {string} method @param {Recorded['msg']} msg @param {'params' | 'result'} part */
  #problemOf(method, { params, result }, part) {
    const isKnown = [...this.#definitions.keys()].some((name) => name.startsWith(`${method} `));
    if (!isKnown) return part === 'params' ? `${method}: no such method` : undefined;
    const problem = this.#check(this.#definitions.get(`${method} ${part}`), part === 'params' ? params : result);
    if (method !== 'session/update') return problem && `${method} ${part}: ${problem}`;
    const kind = params.update.sessionUpdate;
    if (!this.#updates.has(kind)) return `${method} ${kind}: no such update`;
    const ofUpdate = this.#check(this.#updates.get(kind), params.update);
    return ofUpdate && `${method} ${kind}: ${ofUpdate}`;
  }

  #check(at, value) {
    const validate = at === undefined ? undefined : this.#ajv.getSchema(`acp#${at}`);
    if (!validate || validate(value)) return undefined;
    // The last error is the error of the outer schema, for example that no variant matches.
    const [first] = validate.errors;
    return `${first.instancePath.replaceAll(/\/\d+(?=\/|$)/g, '/*')} ${first.message}`.trim();
  }
}
