import type { ClientRequest } from 'node:http'
import type { Agent as HttpsAgent } from 'node:https'
import { HttpProxyAgent } from 'http-proxy-agent'
import { HttpsProxyAgent } from 'https-proxy-agent'

/** The pool of sockets that an agent keeps. */
export interface PoolOptions {
  keepAlive: boolean
  maxSockets: number
  maxFreeSockets: number
}

type ConnectOptions = Parameters<HttpsProxyAgent<string>['connect']>[1]

/** Tunnels to the store. What its constructor is given is for the proxy, so the store's certificates come in here. */
class TrustingProxyAgent extends HttpsProxyAgent<string> {
  readonly #trust: { ca?: string[] }

  constructor(proxy: URL, pool: PoolOptions, trust: { ca?: string[] }) {
    super(proxy.href, { ...pool, ...trust })
    this.#trust = trust
  }

  override connect(request: ClientRequest, options: ConnectOptions): ReturnType<HttpsProxyAgent<string>['connect']> {
    return super.connect(request, { ...options, ...this.#trust })
  }
}

/** Agents for both kinds of store, which send everything through the proxy. Nothing is connected yet. */
export function createProxyAgents(
  proxy: URL,
  pool: PoolOptions,
  trust: { ca?: string[] },
): { httpAgent: HttpProxyAgent<string>; httpsAgent: HttpsAgent } {
  return {
    httpAgent: new HttpProxyAgent(proxy.href, pool),
    httpsAgent: new TrustingProxyAgent(proxy, pool, trust),
  }
}
