/**
 * Combines the build of this commit with the build of the previous commit. The build of the stateless worker and the build of the
 * objects are chosen separately. Replaces the entry module.
 */

import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import * as current from './index.js';
import * as previous from './previous/index.js';

const BUILDS = { current, previous };

/** The builds to use instead of the variables `WORKER_BUILD` and `OBJECT_BUILD`. @type {{worker?: string, object?: string}} */
let selectedBuilds = {};

export default class extends WorkerEntrypoint {
  async fetch(request) {
    if (new URL(request.url).pathname === '/e2e/builds') {
      selectedBuilds = await request.json();
      return new Response(null, { status: 204 });
    }
    const { default: Worker } = BUILDS[selectedBuilds.worker ?? this.env.WORKER_BUILD];
    return new Worker(this.ctx, this.env).fetch(request);
  }
}

/** An object keeps its build until it leaves memory. */
export class NamespaceHub extends DurableObject {
  constructor(state, env) {
    super(state, env);
    this.hub = new BUILDS[selectedBuilds.object ?? env.OBJECT_BUILD].NamespaceHub(state, env);
  }
}

for (const name of ['fetch', 'webSocketMessage', 'webSocketClose', 'webSocketError', 'alarm']) {
  NamespaceHub.prototype[name] = function handle(...args) {
    return this.hub[name](...args);
  };
}
