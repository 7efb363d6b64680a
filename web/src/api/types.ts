/** Short names for the types of the hub's API. `npm run types` generates `types/schema.d.ts` from docs/openapi.yaml. */

import type { components, paths } from '../../types/schema.d.ts';

type Schemas = components['schemas'];

export type Session = Schemas['Session'];
export type SessionSummary = Schemas['SessionSummary'];
/** A stored message. In a page of the history, a large message is an excerpt. */
export type Message = Schemas['Message'] | Schemas['MessageExcerpt'];
export type Machine = Schemas['Machine'];
export type Attachment = Schemas['Attachment'];
export type TodoItem = Schemas['TodoItem'];
export type PendingRequest = Schemas['PendingRequest'];
export type CompletedRequest = Schemas['CompletedRequest'];
export type Config = Schemas['Config'];
export type AgentChoice = Schemas['AgentChoice'];
export type Choice = Schemas['Choice'];
export type PushLogEntry = Schemas['PushLogEntry'];
export type Status = Schemas['Status'];
export type Device = paths['/api/devices']['get']['responses'][200]['content']['application/json']['devices'][number];
/** What `PATCH /api/sessions/{id}` changes. */
export type SessionChange = NonNullable<paths['/api/sessions/{id}']['patch']['requestBody']>['content']['application/json'];
/** What people set on a session, other than its name. */
export type SessionSetting = Exclude<keyof SessionChange, 'name' | 'expectedVersion'>;
/** A device that asks for access. */
export type AccessRequest = paths['/api/devices/requests/{code}']['get']['responses'][200]['content']['application/json']['request'];

/** An event of the event channel. */
export type HubEvent = Schemas['Event'];
