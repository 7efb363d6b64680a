/** The two channels that bring events to web clients, and coming back to them. */

/** What opens each; they carry the same events. */
export const CHANNELS = { stream: 'sse', socket: 'socket' };

/** Opens a feed that ends with the test, and waits until it stands. */
export async function follow(t, web, channel, query, options) {
  const feed = await web[CHANNELS[channel]](query, options);
  t.after(() => feed.close());
  await feed.greeting();
  return feed;
}

/** Comes back to a channel after the event that was heard last. */
export function comeBack(t, web, channel, query, lastEventId) {
  const inHeader = channel === 'stream';
  return follow(t, web, channel, inHeader ? query : { ...query, lastEventId }, inHeader ? { lastEventId } : {});
}
