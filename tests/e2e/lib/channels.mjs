/** The two event channels of web clients, which carry the same events: the SSE stream and the WebSocket. */

/** The method of `Web` that opens each channel. */
export const CHANNELS = { stream: 'openStream', socket: 'openSocket' };

/** Opens a feed and waits for its greeting. The feed is closed after the test. */
export async function openFeed(t, web, channel, query, options) {
  const feed = await web[CHANNELS[channel]](query, options);
  t.after(() => feed.close());
  await feed.waitForGreeting();
  return feed;
}

/** Opens a feed that resumes after an event. */
export function resumeFeed(t, web, channel, query, lastEventId) {
  const inHeader = channel === 'stream';
  return openFeed(t, web, channel, inHeader ? query : { ...query, lastEventId }, inHeader ? { lastEventId } : {});
}
