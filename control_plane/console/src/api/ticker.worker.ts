// The worker behind `ticker.ts`: it is told the interval once and then only ticks.
onmessage = (event: MessageEvent<number>): void => {
  setInterval(() => postMessage(null), event.data);
};
