/** The runtime's globals and modules that browsers do not have, and the generated bindings of the wasm. */

declare class IdentityTransformStream extends TransformStream<Uint8Array, Uint8Array> {}

declare class WebSocketRequestResponsePair {
  constructor(request: string, response: string);
}

declare module 'cloudflare:workers' {
  export class WorkerEntrypoint {
    env: unknown;
    ctx: { waitUntil: (work: Promise<unknown>) => void };
  }
  export class DurableObject {
    constructor(ctx: { waitUntil: (work: Promise<unknown>) => void }, env: unknown);
    env: unknown;
    ctx: { waitUntil: (work: Promise<unknown>) => void };
  }
}

declare module 'hub-bindings' {
  export function __worker_init_state(): { criticalError: boolean; instanceId: number; interrupted: () => Response };
  export function __wbg_reset_state(): void;
  export function fetch(incoming: unknown, env: unknown, ctx: { waitUntil: (work: Promise<unknown>) => void }): Promise<Response>;
  export class NamespaceHub {
    constructor(...args: unknown[]);
    free(): void;
    fetch(request: Request): Promise<Response>;
    alarm(): Promise<void>;
    webSocketMessage(socket: WebSocket, frame: string | ArrayBuffer): Promise<void>;
    webSocketClose(socket: WebSocket): Promise<void>;
    webSocketError(socket: WebSocket): Promise<void>;
  }
}
