/** The built worker with variables that `Hub.setVariables` replaces. Replaces the entry module. */

import Worker, { NamespaceHub } from './index.js';

export { NamespaceHub };

/** The values that replace variables and bindings of the worker. @type {Record<string, unknown>} */
let variables = {};

export default class extends Worker {
  constructor(context, env) {
    const values = Object.entries({ ...env, ...variables });
    super(context, Object.fromEntries(values.filter(([, value]) => value !== null)));
  }

  async fetch(request) {
    if (new URL(request.url).pathname !== '/e2e/variables') return super.fetch(request);
    variables = await request.json();
    return new Response(null, { status: 204 });
  }
}
