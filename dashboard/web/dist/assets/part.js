import{ay as s,l as e}from"./app.js";const r=(a,t)=>(l,o={})=>s((e.value==="zh"?t:a)[l],o);export{r as t};
