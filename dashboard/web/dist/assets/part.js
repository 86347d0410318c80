import{ao as s,l as e}from"./app.js";const r=(a,o)=>(t,l={})=>s((e.value==="zh"?o:a)[t],l);export{r as t};
