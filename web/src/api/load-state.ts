/** Whether a resource was fetched from the hub. */
export type LoadState = { status: 'idle' } | { status: 'loading' } | { status: 'ready' } | { status: 'failed'; error: string };
