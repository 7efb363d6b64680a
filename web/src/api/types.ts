/** The hub's shapes, by short names. `types/schema.d.ts` is made of docs/openapi.yaml by `npm run types`. */

import type { components } from '../../types/schema';

type Schemas = components['schemas'];

export type Session = Schemas['Session'];
export type SessionSummary = Schemas['SessionSummary'];
export type Message = Schemas['Message'];
export type Machine = Schemas['Machine'];
export type Attachment = Schemas['Attachment'];
export type TodoItem = Schemas['TodoItem'];
export type PendingRequest = Schemas['PendingRequest'];
export type CompletedRequest = Schemas['CompletedRequest'];
export type PermissionMode = Schemas['PermissionMode'];
export type PushLogEntry = Schemas['PushLogEntry'];

/** An event of the channel. */
export type HubEvent = Schemas['Event'];
