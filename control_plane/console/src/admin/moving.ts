/** How does an overview look once what moves all the time has moved? Pure. */

import type { Moving, Overview } from "./types";

/** Rows that one of the two doesn't have are left as they are: the next overview settles it. */
export function moved(overview: Overview, by: Moving): Overview {
  const pools = new Map(by.pools.map((pool) => [pool.pool, pool]));
  return {
    at: by.at,
    pools: overview.pools.map((pool) => {
      const news = pools.get(pool.pool);
      if (news === undefined) return pool;
      const nodes = new Map(news.nodes.map((node) => [node.node_id, node]));
      const line = new Map(news.line.map((place) => [place.session_id, place]));
      return {
        ...pool,
        nodes: pool.nodes.map((node) => ({ ...node, ...nodes.get(node.node_id) })),
        line: pool.line.map((place) => ({ ...place, ...line.get(place.session_id) })),
      };
    }),
  };
}
